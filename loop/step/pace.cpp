#include <giro/loop/step/pace.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

namespace giro::detail {

void ClockWatch::looked(const Elapsed& elapsed, double until) {
  constexpr std::int64_t kSeldom = 128;
  std::int64_t steps = 1;
  if (elapsed.steps > steps_ && elapsed.time() > time_) {
    const double step_time = (elapsed.time() - time_) / static_cast<double>(elapsed.steps - steps_);
    steps = static_cast<std::int64_t>(std::clamp((until - elapsed.time()) / step_time / 2, 1.0, double{kSeldom}));
  }
  next_ = elapsed.steps + steps;
  steps_ = elapsed.steps;
  time_ = elapsed.time();
}

Pace::Pace(std::int64_t fixed) : fixed_(fixed != 0), size_(fixed != 0 ? fixed : 1) {
  if (fixed < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("loop: steps_per_execution is {}, expected 0 (as many as fit) or more", fixed));
  }
}

void Pace::launched(std::int64_t steps, const Stream& stream) {
  since_mark_ += steps;
  if (since_mark_ < size_) return;
  since_mark_ = 0;
  if (older_) older_->synchronize();
  std::swap(older_, newer_);
  if (!newer_) newer_ = std::make_unique<Event>(stream);
  newer_->record(stream);

  const auto now = Clock::now();
  const auto took = now - std::exchange(marked_, now);
  using std::chrono::microseconds;
  if (fixed_) return;
  if (took < microseconds(500) && size_ < kMaxSteps) size_ *= 2;
  if (took > microseconds(2000) && size_ > 1) size_ /= 2;
}

}  // namespace giro::detail
