// Measures how long a step and its ops take (Step::profile), with a separate recording and a state that is restored.

#include <algorithm>
#include <exception>
#include <vector>

#include <giro/kernels/device_speed.h>
#include <giro/loop/step/step_recording.h>
#include <giro/runtime/snapshot.h>

namespace giro::detail {
namespace {

// The same on all ranks, which replay together.
constexpr int kRounds = 5;
constexpr std::int64_t kReplays = 32;  // in one launch on a GPU

}  // namespace

// Seconds. On the CPU a call's input is valid only for the next replay.
double StepRecording::time_replay(const StepCall& call) {
  // How many calls can be held back differs between ranks.
  const bool alone = partitioner_ == nullptr || partitioner_->size() == 1;
  const std::int64_t times = stream_.device().is_cuda() && alone ? std::min(kReplays, max_held()) : 1;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    for (std::int64_t i = 0; i < times; ++i) prepare(call);
    flush();
    rounds.push_back(graph_->replay_time(stream_, times));
  }
  std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
  return rounds[kRounds / 2];
}

Program StepRecording::profile_of(const StepCall& call, const StepBody& body, const std::source_location& where) {
  const DeviceSpeed speed = device_speed(call.state.stream());
  StepRecording recording(call, body, Mode::recorded, where);
  Program program = recording.program(call.state);
  const Stream& stream = recording.stream_;
  std::vector<const State*> states = recording.graph_->states();  // the other states that it uses
  states.push_back(&call.state);
  std::vector<Snapshot> before;
  for (const State* state : states) before.emplace_back(*state, MemoryKind::device, Collections::all);
  const auto put_back = [&] {
    for (std::size_t i = 0; i < states.size(); ++i) before[i].write_back(*states[i]);
    stream.synchronize();
  };
  try {
    const double replay = recording.time_replay(call);  // leaves the ops' inputs in the temporaries
    stream.synchronize();
    const std::vector<std::optional<double>> seconds = recording.graph_->op_times(stream, [&] {
      // Each op then reads the input of a call that has already run.
      stream.fill(recording.call_.raw(), 0, recording.call_.bytes());
    });
    program.set_times(seconds, {speed, replay});
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    try {
      put_back();
    } catch (...) {
      // After a device error nothing can be restored; the first error says more.
    }
    std::rethrow_exception(failure);
  }
  put_back();
  return program;
}

}  // namespace giro::detail
