#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include <giro/runtime/files/archive.h>

#include "loop/time/schedule_nodes.h"

namespace giro {
namespace {

using detail::ScheduleNode, detail::both, detail::check_not_empty, detail::is_steps_alone, detail::make_schedule;

using Boundaries = std::vector<std::pair<Period, Schedule>>;

class Piecewise final : public ScheduleNode {
 public:
  Piecewise(Schedule first, Boundaries boundaries) : first_(std::move(first)), boundaries_(std::move(boundaries)) {}

  bool due(const Elapsed& elapsed) override {
    // In order: a boundary that is reached before an earlier one takes effect after it.
    while (active_ < boundaries_.size() && elapsed >= boundaries_[active_].first) {
      start_ = start_of(boundaries_[active_].first, elapsed);
      ++active_;
    }
    return (active_ == 0 ? first_ : boundaries_[active_ - 1].second)(relative(elapsed));
  }

  Period next(const Elapsed& elapsed) const override {
    Period next = schedule().next(relative(elapsed));
    if (next.steps) *next.steps += start_.steps;
    if (next.samples) *next.samples += start_.samples;
    if (next.tokens) *next.tokens += elapsed.tokens_of(start_.samples);
    if (next.time) *next.time += start_.time;
    return active_ < boundaries_.size() ? earliest(next, boundaries_[active_].first) : next;
  }

  Traits traits() const override {
    Traits all = first_.traits();
    for (const auto& [period, schedule] : boundaries_) {
      // The position of a boundary in steps does not depend on when it was first seen.
      all = both(all,
                 {.remembers = !is_steps_alone(period), .persists = true, .reads_clock = period.time || period.date});
      all = both(all, schedule.traits());
    }
    return all;
  }

  void persist(Archive& archive) override {
    std::uint64_t active = active_;
    archive("active", active)("start", start_);
    active_ = std::min<std::size_t>(active, boundaries_.size());
    if (first_.traits().persists) archive("first", first_);
    for (auto& [period, schedule] : boundaries_) {
      if (schedule.traits().persists) archive(fmt::format("at({})", giro::to_string(period)), schedule);
    }
  }
  std::string to_string() const override {
    std::string text;
    for (const auto& [period, schedule] : boundaries_) {
      text += fmt::format("{}at({}): {}", text.empty() ? "" : ", ", giro::to_string(period), giro::to_string(schedule));
    }
    return fmt::format("piecewise({}, {{{}}})", giro::to_string(first_), text);
  }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Piecewise>(*this); }

 private:
  struct Start {
    std::int64_t steps = 0, samples = 0;
    double time = 0;
    void persist(Archive& archive) { archive("steps", steps)("samples", samples)("time", time); }
  };

  // The start of the schedule that follows a boundary. In the fields that have reached the boundary it is the boundary
  // itself, however late that is seen; in the other fields it is the current position. Tokens count in whole samples.
  // It is never before the start of the previous schedule.
  Start start_of(const Period& boundary, const Elapsed& elapsed) const {
    Start start{elapsed.steps, elapsed.samples, elapsed.time()};
    if (boundary.steps && elapsed.steps >= *boundary.steps) start.steps = std::max(start_.steps, *boundary.steps);
    if (boundary.samples && elapsed.samples >= *boundary.samples) {
      start.samples = std::max(start_.samples, *boundary.samples);
    }
    if (boundary.tokens && elapsed.tokens() >= *boundary.tokens) {
      start.samples = std::min(start.samples, std::max(start_.samples, elapsed.samples_with(*boundary.tokens)));
    }
    if (boundary.time && elapsed.time() >= *boundary.time) start.time = std::max(start_.time, *boundary.time);
    return start;
  }

  Elapsed relative(const Elapsed& elapsed) const {
    Elapsed relative = elapsed;
    relative.steps -= start_.steps;
    relative.samples -= start_.samples;
    relative.date_start += start_.time;
    relative.previous_samples = std::max<std::int64_t>(0, elapsed.previous_samples - start_.samples);
    return relative;
  }

  const Schedule& schedule() const { return active_ == 0 ? first_ : boundaries_[active_ - 1].second; }

  Schedule first_;
  Boundaries boundaries_;
  std::size_t active_ = 0;  // boundaries that were reached
  Start start_;             // of the active schedule
};

// Whether both have the field and the later value is not larger.
template <class T>
bool out_of_order(const std::optional<T>& earlier, const std::optional<T>& later) {
  return earlier && later && !(*earlier < *later);
}

void check(const Boundaries& boundaries) {
  for (std::size_t i = 0; i < boundaries.size(); ++i) {
    const Period& later = boundaries[i].first;
    check_not_empty(later, "piecewise");
    for (std::size_t k = 0; k < i; ++k) {
      const Period& earlier = boundaries[k].first;
      if (out_of_order(earlier.steps, later.steps) || out_of_order(earlier.samples, later.samples) ||
          out_of_order(earlier.tokens, later.tokens) || out_of_order(earlier.time, later.time) ||
          out_of_order(earlier.date, later.date)) {
        throw_invalid("piecewise: expected boundaries in increasing order, found at({}) after at({})", to_string(later),
                      to_string(earlier));
      }
    }
  }
}

}  // namespace

Schedule piecewise(Schedule schedule, Boundaries boundaries) {
  check(boundaries);
  return make_schedule<Piecewise>(std::move(schedule), std::move(boundaries));
}

After::After(const Period& period)
    : Schedule(detail::named(make_schedule<Piecewise>(never(), Boundaries{{period, always()}}),
                             fmt::format("after({})", to_string(period)))),
      period_(period) {
  check_not_empty(period, "after");
}
Schedule After::then(Schedule schedule) const {
  const std::string text = fmt::format("after({}).then({})", to_string(period_), to_string(schedule));
  return detail::named(make_schedule<Piecewise>(never(), Boundaries{{period_, std::move(schedule)}}), text);
}
After after(std::int64_t steps) { return After(at(steps)); }
After after(const Period& period) { return After(period); }

}  // namespace giro
