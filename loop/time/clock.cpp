#include <giro/loop/time/clock.h>

#include <chrono>

namespace giro {
namespace {

template <class C>
double seconds() {
  return std::chrono::duration<double>(C::now().time_since_epoch()).count();
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
