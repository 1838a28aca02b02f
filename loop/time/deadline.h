#pragma once

#include <cstdint>
#include <limits>

#include <giro/loop/time/elapsed.h>

namespace giro::detail {

// The first step, sample or second at which something may be due: a Period that each step can check fast.
struct Deadline {
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
  std::int64_t samples = std::numeric_limits<std::int64_t>::max();
  double time = std::numeric_limits<double>::infinity();  // seconds since the loop's start

  // In the run that `elapsed` belongs to. Error(invalid_argument) if it has no tokens and the period does.
  static Deadline at(const Period& period, const Elapsed& elapsed) {
    Deadline deadline;
    if (period.steps) deadline.steps = *period.steps;
    if (period.samples) deadline.samples = *period.samples;
    if (period.tokens) deadline.merge({.samples = elapsed.samples_with(*period.tokens)});
    if (period.time) deadline.time = *period.time;
    if (period.date) deadline.merge({.time = *period.date - elapsed.date_start});
    return deadline;
  }
  // The earlier of both.
  void merge(const Deadline& other) {
    if (other.steps < steps) steps = other.steps;
    if (other.samples < samples) samples = other.samples;
    if (other.time < time) time = other.time;
  }
  bool has_time() const { return time < std::numeric_limits<double>::infinity(); }
  bool reached(const Elapsed& elapsed) const {
    return elapsed.steps >= steps || elapsed.samples >= samples || elapsed.time() >= time;
  }
};

}  // namespace giro::detail
