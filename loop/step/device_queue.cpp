#include <giro/loop/step/device_queue.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <giro/runtime/span.h>

#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

// Longer sequences are not worth a separate graph.
constexpr std::size_t kMaxPeriod = 16;

std::int64_t nanoseconds() {
  using std::chrono::steady_clock, std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

LaunchPacer::LaunchPacer(std::int64_t fixed)
    : fixed_(fixed != 0), size_(fixed != 0 ? fixed : 1), marked_(nanoseconds()) {
  if (fixed < 0) throw_invalid("loop: steps_per_execution is {}, expected 0 (as many as fit) or more", fixed);
}

void LaunchPacer::launched(std::int64_t steps, const Stream& stream) {
  steps_since_mark_ += steps;
  if (steps_since_mark_ < size_) return;
  steps_since_mark_ = 0;
  if (ended_ - awaited_ == 2) wait();
  std::optional<Event>& end = ends_[ended_ % 2];
  if (!end) end.emplace(stream);
  end->record(stream);
  ++ended_;

  const std::int64_t now = nanoseconds();
  const std::int64_t took = now - std::exchange(marked_, now);
  if (fixed_) return;
  if (took < 500'000 && size_ < kMaxSteps) size_ *= 2;
  if (took > 2'000'000 && size_ > 1) size_ /= 2;
}

bool LaunchPacer::wait() {
  if (awaited_ == ended_) return false;
  ends_[awaited_++ % 2]->synchronize();
  return true;
}

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

// The length of the shortest sequence that the held calls repeat, or more than kMaxPeriod; the last repetition may be
// incomplete.
std::size_t DeviceQueue::shortest_period() const {
  std::size_t period = 1;
  const std::span<StepRecording* const> held(held_);
  while (period <= kMaxPeriod && !std::ranges::equal(held.subspan(period), held.first(held.size() - period))) ++period;
  return period;
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

}  // namespace giro::detail
