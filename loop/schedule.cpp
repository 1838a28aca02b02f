#include <giro/loop/schedule.h>

#include <fmt/format.h>

#include <cmath>

#include <giro/runtime/error.h>

namespace giro {
namespace {

class Every {
 public:
  explicit Every(const Period& period) : period_(period) {}

  bool operator()(const Elapsed& elapsed) {
    const bool step_due = period_.steps && elapsed.steps % *period_.steps == 0;
    const bool samples_due = period_.samples && advance(samples_seen_, elapsed.samples / *period_.samples);
    const bool time_due =
        period_.time && advance(times_seen_, static_cast<std::int64_t>(std::floor(elapsed.time() / *period_.time)));
    return step_due || samples_due || time_due;
  }

 private:
  // Comparing quotients misses no boundary, however far the counter jumps.
  static bool advance(std::int64_t& seen, std::int64_t quotient) { return std::exchange(seen, quotient) < quotient; }

  Period period_;
  std::int64_t samples_seen_ = 0;
  std::int64_t times_seen_ = 0;
};

}  // namespace

Schedule every(std::int64_t steps) { return every(at(steps)); }

Schedule every(const Period& period) {
  const bool none = !period.steps && !period.samples && !period.time;
  if (none || period.date) {
    throw Error(ErrorCode::invalid_argument, "every: expected steps, samples or time, found none or a date");
  }
  if (period.steps.value_or(1) < 1 || period.samples.value_or(1) < 1 || !(period.time.value_or(1) > 0)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("every: expected positive steps, samples and time, found {} steps, {} samples, {} s",
                            period.steps.value_or(1), period.samples.value_or(1), period.time.value_or(1)));
  }
  return Every(period);
}

}  // namespace giro
