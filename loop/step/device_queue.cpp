#include <giro/loop/step/device_queue.h>

#include <algorithm>
#include <span>
#include <utility>

#include <giro/runtime/span.h>

namespace giro::detail {
namespace {
// Longer sequences are not worth a separate graph.
constexpr std::size_t kMaxPeriod = 16;
}  // namespace

DeviceQueue::DeviceQueue(std::int64_t steps_per_execution) : pacer_(steps_per_execution) {}

void DeviceQueue::push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) {
  recording->prepare(call);
  if (std::find(recordings_.begin(), recordings_.end(), recording) == recordings_.end()) {
    recordings_.push_back(recording);
  }
  const auto& dataset = call.batch.resident_rows();
  if (dataset && (datasets_.empty() || datasets_.back() != dataset)) datasets_.push_back(dataset);
  held_.push_back(recording.get());
  step_has_calls_ = true;
  if (static_cast<std::int64_t>(held_.size()) >= recording->max_held()) launch();
}

void DeviceQueue::replay(const Graph& graph, std::size_t times) {
  graph.replay(held_.front()->stream(), static_cast<std::int64_t>(times));
  ++launches_;
}

// Consecutive calls of one recording are one launch.
void DeviceQueue::launch_runs(std::size_t first, std::size_t last) {
  while (first < last) {
    std::size_t end = first + 1;
    while (end < last && held_[end] == held_[first]) ++end;
    replay(held_[first]->graph(), end - first);
    first = end;
  }
}

// The length of the shortest sequence that the held calls repeat; the last repetition may be incomplete. Uses the
// failure function of Knuth, Morris and Pratt.
std::size_t DeviceQueue::shortest_period() {
  borders_.assign(held_.size(), 0);
  for (std::size_t i = 1, border = 0; i < held_.size(); ++i) {
    while (border > 0 && held_[i] != held_[border]) border = borders_[border - 1];
    if (held_[i] == held_[border]) ++border;
    borders_[i] = border;
  }
  return held_.size() - borders_.back();
}

void DeviceQueue::launch() {
  if (held_.empty()) return;
  const Stream stream = held_.front()->stream();
  const std::int64_t steps = std::exchange(steps_, 0);
  step_has_calls_ = false;
  const Span span("launch", "launch", "steps", std::max<std::int64_t>(steps, 1));
  try {
    for (const auto& recording : recordings_) recording->flush();
    const std::size_t period = recordings_.size() == 1 ? 1 : shortest_period();
    const std::size_t times = held_.size() / period;
    if (period == 1 || period > kMaxPeriod || times == 1) {
      launch_runs(0, held_.size());
    } else {
      replay(held_.front()->sequence(std::span(held_).first(period)), times);
      launch_runs(times * period, held_.size());
    }
    pacer_.launched(std::max<std::int64_t>(steps, 1), stream);
  } catch (...) {
    for (const auto& recording : recordings_) recording->set_failed();
    forget_held();
    throw;
  }
  forget_held();
}

// Launched work needs only their memory, and the release of that memory waits for the work.
void DeviceQueue::forget_held() {
  held_.clear();
  recordings_.clear();
  datasets_.clear();
}

bool DeviceQueue::wait() { return pacer_.wait(); }

}  // namespace giro::detail
