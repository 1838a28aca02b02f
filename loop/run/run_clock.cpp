#include "loop/run/run_clock.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace giro::detail {

void RunClock::start(const Elapsed& elapsed) {
  const double now = this->now();
  started_ = elapsed;
  started_.date_start = now - elapsed.time();
  started_.previous_date += now - elapsed.date;
  started_.date = now;
  started_.last = false;
}

void RunClock::read(Elapsed& elapsed) {
  if (!std::exchange(is_read_, true)) elapsed.date = now();
}

void RunClock::plan(const Elapsed& elapsed, double until) {
  constexpr double kMaxSteps = 128;
  std::int64_t steps = 1;
  if (elapsed.steps > planned_at_ && elapsed.time() > planned_time_) {
    const double step_time = (elapsed.time() - planned_time_) / static_cast<double>(elapsed.steps - planned_at_);
    steps = static_cast<std::int64_t>(std::clamp((until - elapsed.time()) / step_time / 2, 1.0, kMaxSteps));
  }
  next_ = elapsed.steps + steps;
  planned_at_ = elapsed.steps;
  planned_time_ = elapsed.time();
}

}  // namespace giro::detail
