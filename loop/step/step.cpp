#include <giro/loop/step/step.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <giro/kernels/device_speed.h>
#include <giro/runtime/snapshot.h>

#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

// Of a profile; the same on all ranks, which replay together.
constexpr int kRounds = 5;
constexpr std::int64_t kReplays = 32;  // in one launch on a GPU

}  // namespace

struct StepEngine::Recordings {
  struct Used {
    std::shared_ptr<StepRecording> recording;
    std::uint64_t last;
  };

  // As of a mutex. A step that called itself, directly or through another, would wait here for ever, so that is an
  // Error(invalid_argument).
  void lock() {
    mutex.lock();
    if (!std::exchange(is_locked, true)) return;
    mutex.unlock();
    throw_invalid("{} calls itself, expected a step that does not", name_of_step(where));
  }
  void unlock() noexcept {
    is_locked = false;
    mutex.unlock();
  }

  std::shared_ptr<StepRecording> find(const StepCall& call, const StepBody& body) {
    ++uses;
    for (Used& one : used) {
      if (!one.recording->matches(call)) continue;
      one.last = uses;
      return one.recording;
    }
    std::erase_if(used, [](const Used& one) { return one.recording->expired(); });
    const bool is_checked =
        std::ranges::any_of(used, [&](const Used& one) { return one.recording->is_checked(call.state); });
    auto recording = std::make_shared<StepRecording>(call, body, mode, where, is_checked);
    if (used.size() >= kMaxRecordings) {
      // A recording that a loop holds is in use, even if the loop does not look it up here.
      const auto age = [](const Used& one) { return std::pair{one.recording.use_count() > 1, one.last}; };
      used.erase(std::ranges::min_element(used, {}, age));
    }
    used.push_back({recording, uses});
    return recording;
  }

  const StepRecording::Mode mode;
  const std::source_location where;
  std::recursive_mutex mutex = {};
  bool is_locked = false;  // the mutex guards it, so only the thread that has locked it can find it set
  std::vector<Used> used = {};
  std::uint64_t uses = 0;
};

StepEngine::StepEngine(StepRecording::Mode mode, std::source_location where)
    : recordings_(new Recordings{.mode = mode, .where = where}) {}

std::shared_ptr<StepRecording> StepEngine::find(const StepCall& call, const StepBody& body,
                                                std::shared_ptr<StepRecording> latest) {
  if (latest && latest->matches(call)) return latest;
  const ContextUse use(call.state.context());
  const std::lock_guard lock(*recordings_);
  return recordings_->find(call, body);
}

Logs StepEngine::call(const StepCall& call, const StepBody& body) {
  const ContextUse use(call.state.context());
  std::unique_lock lock(*recordings_);
  const std::shared_ptr<StepRecording> recording = recordings_->find(call, body);
  // An eager step keeps the lock: it calls the user's function each time, which need not be thread-safe.
  if (!recording->is_eager()) lock.unlock();
  try {
    if (recording->must_compare_ranks()) recording->compare_ranks();
    return recording->call(call, body);
  } catch (...) {
    recording->set_failed();
    throw;
  }
}

std::size_t StepEngine::num_recordings() const {
  const std::lock_guard lock(*recordings_);
  return recordings_->mode == StepRecording::Mode::recorded ? recordings_->used.size() : 0;
}

// A profile measures how long a step and its ops take, with a separate recording and a state that is restored.

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
    try {
      put_back();
    } catch (...) {
      // After a device error nothing can be restored; the first error says more.
    }
    throw;
  }
  put_back();
  return program;
}

}  // namespace giro::detail
