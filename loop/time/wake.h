#pragma once

#include <cstdint>
#include <limits>

#include <giro/loop/time/elapsed.h>

namespace giro::detail {

// Avoids <algorithm>, which every program would have to compile.
template <class T>
constexpr T lowest(T a, T b) {
  return b < a ? b : a;
}
template <class T, class... Rest>
constexpr T lowest(T a, T b, Rest... rest) {
  return lowest(lowest(a, b), rest...);
}

// The first step, sample or second at which something may be due: a Period that the loop's innermost comparison can
// check fast.
struct Wake {
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
  std::int64_t samples = std::numeric_limits<std::int64_t>::max();
  double time = std::numeric_limits<double>::infinity();  // seconds since the loop's start
  // 1 in the usual case that only the steps are compared. A whole word, because a Wake is copied and read in each step,
  // and a processor stalls when it reads across smaller values it has just written.
  std::int64_t steps_alone = 1;

  // In the run that `elapsed` belongs to. Error(invalid_argument) if it has no tokens and the period does.
  static Wake at(const Period& period, const Elapsed& elapsed) {
    Wake wake;
    if (period.steps) wake.steps = *period.steps;
    wake.steps_alone = !period.samples && !period.tokens && !period.time && !period.date ? 1 : 0;
    if (wake.steps_alone != 0) return wake;
    if (period.samples) wake.samples = *period.samples;
    if (period.tokens) wake.samples = lowest(wake.samples, elapsed.samples_with(*period.tokens));
    if (period.time) wake.time = *period.time;
    if (period.date) wake.time = lowest(wake.time, *period.date - elapsed.date_start);
    return wake;
  }
  void merge(const Wake& other) {
    steps = lowest(steps, other.steps);
    if (other.steps_alone != 0) return;
    samples = lowest(samples, other.samples);
    time = lowest(time, other.time);
    steps_alone = 0;
  }
  bool reached(const Elapsed& elapsed) const {
    return elapsed.steps >= steps || (steps_alone == 0 && (elapsed.samples >= samples || elapsed.time() >= time));
  }
};

// When to read the clock, which can cost more than a step: in every step shortly before a time is reached, and rarely
// long before it.
class ClockWatch {
 public:
  // Never due if there is no time to notice.
  explicit ClockWatch(bool timed) : next_(timed ? 0 : std::numeric_limits<std::int64_t>::max()) {}

  bool is_due(std::int64_t steps) const { return steps >= next_; }
  // The first number of completed steps at which it is due.
  std::int64_t next() const { return next_; }
  // Call this after reading the clock. `until`: the next time to notice.
  void looked(const Elapsed& elapsed, double until);

 private:
  std::int64_t next_;
  std::int64_t steps_ = 0;
  double time_ = 0;
};

}  // namespace giro::detail
