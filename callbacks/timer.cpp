#include <giro/callbacks/timer.h>

#include <utility>

#include <giro/runtime/files/archive.h>

namespace giro {

std::optional<Logs> Timer::operator()(const Elapsed& elapsed) {
  const std::optional<Elapsed> before = std::exchange(before_, elapsed);
  // If the clock was set back, the interval is unknown.
  if (!before || !(elapsed.date > before->date)) return std::nullopt;
  const Elapsed interval = elapsed - *before;
  return logs()
      .add_metric("steps_per_second", static_cast<double>(interval.steps) / interval.time())
      .add_metric("samples_per_second", static_cast<double>(interval.samples) / interval.time());
}

void Timer::persist(Archive& archive) { archive("before", before_); }

}  // namespace giro
