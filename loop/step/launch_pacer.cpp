#include <giro/loop/step/launch_pacer.h>

#include <chrono>
#include <utility>

#include "runtime/throw_error.h"

namespace giro::detail {

namespace {
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
  if (older_pending_) wait();
  std::swap(older_event_, newer_event_);
  older_pending_ = std::exchange(newer_pending_, true);
  if (!newer_event_) newer_event_.emplace(stream);
  newer_event_->record(stream);

  const std::int64_t now = nanoseconds();
  const std::int64_t took = now - std::exchange(marked_, now);
  if (fixed_) return;
  if (took < 500'000 && size_ < kMaxSteps) size_ *= 2;
  if (took > 2'000'000 && size_ > 1) size_ /= 2;
}

bool LaunchPacer::wait() {
  if (std::exchange(older_pending_, false)) {
    older_event_->synchronize();
    return true;
  }
  if (std::exchange(newer_pending_, false)) {
    newer_event_->synchronize();
    return true;
  }
  return false;
}

}  // namespace giro::detail
