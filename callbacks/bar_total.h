#pragma once

#include <cstdint>

#include <giro/loop/time/elapsed.h>

namespace giro {

// When a progress bar is complete: so many steps, or a period, as a loop's stop, of whose fields the bar shows the one
// that is furthest on. Default, 0 or an empty period: unknown.
struct BarTotal {
  BarTotal(std::int64_t steps = 0) {
    if (steps != 0) period.steps = steps;
  }
  BarTotal(const Period& total) : period(total) {}

  Period period;
};

}  // namespace giro
