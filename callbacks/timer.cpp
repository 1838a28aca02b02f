#include <giro/callbacks/timer.h>

#include <utility>

#include <giro/runtime/files/archive.h>

namespace giro {

std::optional<Logs> Timer::operator()(const Elapsed& elapsed) {
  const std::optional<Elapsed> before = std::exchange(before_, elapsed);
  // If the clock was set back, the interval is unknown.
  if (!before || !(elapsed.date > before->date)) return std::nullopt;
  const Elapsed interval = elapsed - *before;
  const auto rate = [&](std::int64_t count) { return static_cast<double>(count) / interval.time(); };
  return logs()
      .add_entry("metrics", "steps_per_second", rate(interval.steps), LogSchema::Rule::last)
      .add_entry("metrics", "samples_per_second", rate(interval.samples), LogSchema::Rule::last);
}

void Timer::persist(Archive& archive) { archive("before", before_); }

}  // namespace giro
