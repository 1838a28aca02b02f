#include <giro/loop/time/clock.h>

#include <chrono>

namespace giro {
namespace {

// A multiplication is faster than the division in duration<double>, and loops may read the clock in each step.
template <class C>
double seconds() {
  return 1e-9 * static_cast<double>(std::chrono::nanoseconds(C::now().time_since_epoch()).count());
}

}  // namespace

Clock::Reading Clock::Reading::now() {
  return {.system = seconds<std::chrono::system_clock>(), .steady = seconds<std::chrono::steady_clock>()};
}

double Clock::now() {
  static const Clock clock(Reading::now());
  return clock.date({.system = 0, .steady = seconds<std::chrono::steady_clock>()});
}

}  // namespace giro
