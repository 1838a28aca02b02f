#include <giro/loop/time/elapsed.h>

#include <chrono>
#include <cmath>
#include <limits>

#include <giro/loop/time/clock.h>
#include <giro/runtime/files/archive.h>

#include "runtime/throw_error.h"

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

void Elapsed::persist(Archive& archive) {
  archive("steps", steps)("samples", samples)("previous_samples", previous_samples)("step_samples", step_samples);
  if (tokens_per_sample != 0 || archive.contains("tokens_per_sample")) {
    archive("tokens_per_sample", tokens_per_sample);
  }
  archive.date("date", date).date("date_start", date_start).date("previous_date", previous_date);
}

double Elapsed::now() { return Clock::now(); }

void Elapsed::reject_count(const char* of) {
  throw_invalid("the count of {} exceeds {}, the largest", of, std::numeric_limits<std::int64_t>::max());
}

std::int64_t detail::steps_of(double number) {
  if (number >= -0x1p63 && number < 0x1p63 && std::trunc(number) == number) return static_cast<std::int64_t>(number);
  throw_invalid("a number of steps is {}, expected a whole number below 2^63", number);
}

std::int64_t detail::steps_of(std::uint64_t number) {
  if (std::in_range<std::int64_t>(number)) return static_cast<std::int64_t>(number);
  throw_invalid("a number of steps is {}, expected one below 2^63", number);
}

void Elapsed::reject_unknown_tokens() const {
  throw_invalid("tokens_per_sample is {}, expected at least 1 for a period of tokens", tokens_per_sample);
}

}  // namespace giro
