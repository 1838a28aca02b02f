#include <giro/loop/time/wake.h>

#include <algorithm>

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

}  // namespace giro::detail
