#include <giro/loop/time/schedule.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include <giro/runtime/files/archive.h>

#include "runtime/throw_error.h"

namespace giro {
namespace {

using detail::ScheduleNode, detail::StepCache;

template <class Node, class... Args>
Schedule make_schedule(Args&&... args) {
  return Schedule(std::make_unique<Node>(std::forward<Args>(args)...));
}

template <class T>
std::optional<T> earlier(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

bool is_steps_alone(const Period& p) { return p.steps && !p.samples && !p.tokens && !p.time && !p.date; }

using Traits = ScheduleNode::Traits;

// The traits of a schedule that combines two.
Traits both(const Traits& a, const Traits& b) {
  return {.remembers = a.remembers || b.remembers,
          .persists = a.persists || b.persists,
          .runs_user_code = a.runs_user_code || b.runs_user_code,
          .awaits_end = a.awaits_end || b.awaits_end,
          .reads_clock = a.reads_clock || b.reads_clock,
          .yields_to_end = a.yields_to_end || b.yields_to_end};
}

class Constant final : public ScheduleNode {
 public:
  explicit Constant(bool due) : due_(due) {}
  bool due(const Elapsed&) override { return due_; }
  Period next(const Elapsed& elapsed) const override { return due_ ? at(elapsed.steps + 1) : Period{}; }
  Traits traits() const override { return {.always = due_}; }
  std::string to_string() const override { return due_ ? "always()" : "never()"; }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Constant>(*this); }

 private:
  bool due_;
};

class Last final : public ScheduleNode {
 public:
  bool due(const Elapsed& elapsed) override { return elapsed.last; }
  Period next(const Elapsed&) const override { return {}; }
  Traits traits() const override { return {.awaits_end = true}; }
  std::string to_string() const override { return "last()"; }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Last>(); }
};

// a & b if `all`, else a | b.
class Pair final : public ScheduleNode {
 public:
  Pair(Schedule a, Schedule b, bool all)
      : a_(std::move(a)), b_(std::move(b)), all_(all), remembers_(traits().remembers) {}

  bool due(const Elapsed& elapsed) override {
    const bool a = a_(elapsed), b = b_(elapsed);
    return all_ ? a && b : a || b;
  }
  Period next(const Elapsed& elapsed) const override {
    const Period a = a_.next(elapsed), b = b_.next(elapsed);
    // A schedule with a memory must be evaluated whenever it could be due, or it would be due too late.
    if (!all_ || remembers_) return earliest(a, b);
    if (a.is_empty() || b.is_empty()) return {};
    return is_steps_alone(a) && is_steps_alone(b) ? at(std::max(*a.steps, *b.steps)) : earliest(a, b);
  }
  Traits traits() const override { return both(a_.traits(), b_.traits()); }
  void persist(Archive& archive) override {
    if (a_.traits().persists) archive("left", a_);
    if (b_.traits().persists) archive("right", b_);
  }
  std::string to_string() const override {
    return fmt::format("({} {} {})", giro::to_string(a_), all_ ? '&' : '|', giro::to_string(b_));
  }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Pair>(*this); }

 private:
  Schedule a_, b_;
  bool all_, remembers_;
};

class Not final : public ScheduleNode {
 public:
  explicit Not(Schedule a) : a_(std::move(a)) {}
  bool due(const Elapsed& elapsed) override { return !a_(elapsed); }
  Period next(const Elapsed& elapsed) const override { return at(elapsed.steps + 1); }
  Traits traits() const override {
    Traits traits = a_.traits();
    std::swap(traits.awaits_end, traits.yields_to_end);
    traits.always = false;
    return traits;
  }
  void persist(Archive& archive) override { a_.persist(archive); }
  std::string to_string() const override { return fmt::format("!{}", giro::to_string(a_)); }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Not>(*this); }

 private:
  Schedule a_;
};

class Named final : public ScheduleNode {
 public:
  Named(Schedule schedule, std::string name) : schedule_(std::move(schedule)), name_(std::move(name)) {}
  bool due(const Elapsed& elapsed) override { return schedule_(elapsed); }
  Period next(const Elapsed& elapsed) const override { return schedule_.next(elapsed); }
  Traits traits() const override { return schedule_.traits(); }
  void persist(Archive& archive) override { schedule_.persist(archive); }
  std::string to_string() const override { return name_; }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Named>(*this); }

 private:
  Schedule schedule_;
  std::string name_;
};

class Every final : public ScheduleNode {
 public:
  explicit Every(const Period& period) : period_(period) {}

  bool due(const Elapsed& elapsed) override {
    const bool steps_due = period_.steps && (elapsed.steps == multiple_ || elapsed.steps % *period_.steps == 0);
    if (steps_due) multiple_ = elapsed.steps + *period_.steps;
    if (!remembers()) return steps_due;
    const double date = period_.time ? elapsed.date : 0;
    const bool others_due = cache_.get(elapsed.steps, elapsed.samples, date, [&] {
      const bool samples_due = period_.samples && advance(samples_seen_, elapsed.previous_samples / *period_.samples,
                                                          elapsed.samples / *period_.samples);
      const bool tokens_due =
          period_.tokens && advance(tokens_seen_, elapsed.tokens_of(elapsed.previous_samples) / *period_.tokens,
                                    elapsed.tokens() / *period_.tokens);
      const bool time_due = period_.time && advance(time_seen_, multiples(elapsed.previous_date - elapsed.date_start),
                                                    multiples(elapsed.time()));
      return samples_due || tokens_due || time_due;
    });
    return steps_due || others_due;
  }

  Period next(const Elapsed& elapsed) const override {
    Period next;
    if (period_.steps) {
      const bool was_due = multiple_ - *period_.steps == elapsed.steps;  // a sum could overflow
      next.steps = was_due ? multiple_ : (elapsed.steps / *period_.steps + 1) * *period_.steps;
    }
    if (period_.samples) next.samples = (elapsed.samples / *period_.samples + 1) * *period_.samples;
    if (period_.tokens) next.tokens = (elapsed.tokens() / *period_.tokens + 1) * *period_.tokens;
    if (period_.time) next.time = static_cast<double>(multiples(elapsed.time()) + 1) * *period_.time;
    return next;
  }

  Traits traits() const override {
    return {.remembers = remembers(),
            .persists = remembers(),
            .reads_clock = period_.time.has_value(),
            .always = period_.steps == 1};
  }
  void persist(Archive& archive) override {
    if (period_.samples) archive("samples_seen", samples_seen_);
    if (period_.tokens) archive("tokens_seen", tokens_seen_);
    if (period_.time) archive("time_seen", time_seen_);
  }
  std::string to_string() const override { return fmt::format("every({})", giro::to_string(period_)); }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Every>(*this); }

 private:
  bool remembers() const { return period_.samples || period_.tokens || period_.time; }

  // Comparing quotients misses no boundary, however far the counter jumps. A schedule that was never evaluated starts
  // from the values before the latest step, so that a continued loop continues where the first one stopped.
  static bool advance(std::optional<std::int64_t>& seen, std::int64_t before, std::int64_t quotient) {
    const std::int64_t last = seen.value_or(before);
    seen = quotient;
    return last < quotient;
  }
  std::int64_t multiples(double seconds) const {
    return static_cast<std::int64_t>(std::floor(std::max(seconds, 0.0) / *period_.time));
  }

  Period period_;
  std::int64_t multiple_ = 0;  // the multiple of `steps` after the latest one that was due; saves divisions
  std::optional<std::int64_t> samples_seen_;
  std::optional<std::int64_t> tokens_seen_;
  std::optional<std::int64_t> time_seen_;
  StepCache cache_;  // of samples, tokens and time
};

// Depends only on the current step, and on where its samples begin to count.
class EveryEnd final : public ScheduleNode {
 public:
  explicit EveryEnd(const Period& period) : period_(period) {}

  bool due(const Elapsed& elapsed) override {
    const auto completes = [](const std::optional<std::int64_t>& n, std::int64_t count, std::int64_t more) {
      return n && (count + more) / *n > count / *n;
    };
    return completes(period_.steps, elapsed.steps, 1) ||
           completes(period_.samples, elapsed.samples, elapsed.step_samples) ||
           (period_.tokens && completes(period_.tokens, elapsed.tokens(), elapsed.tokens_of(elapsed.step_samples)));
  }
  Period next(const Elapsed& elapsed) const override {
    // The number of samples in later steps is not known.
    if (period_.samples || period_.tokens) return at(elapsed.steps + 1);
    return at(((elapsed.steps + 1) / *period_.steps + 1) * *period_.steps - 1);
  }
  // Within piecewise, samples count from where the boundary was first seen.
  Traits traits() const override { return {.remembers = period_.samples || period_.tokens}; }
  std::string to_string() const override { return fmt::format("every_end({})", giro::to_string(period_)); }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<EveryEnd>(*this); }

 private:
  Period period_;
};

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

void check_not_empty(const Period& period, const char* schedule) {
  if (period.is_empty()) {
    throw_invalid("{}: expected a period of steps, samples, tokens, time or a date, found an empty one", schedule);
  }
}

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

bool counts_are_positive(const Period& period) {
  return period.steps.value_or(1) > 0 && period.samples.value_or(1) > 0 && period.tokens.value_or(1) > 0;
}

}  // namespace

Schedule detail::named(Schedule schedule, std::string name) {
  return make_schedule<Named>(std::move(schedule), std::move(name));
}

Schedule always() { return make_schedule<Constant>(true); }
Schedule never() { return make_schedule<Constant>(false); }
Schedule last() { return make_schedule<Last>(); }

Schedule every(std::int64_t steps) { return every(at(steps)); }
Schedule every(const Period& period) {
  if (period.is_empty() || period.date) {
    throw_invalid("every: expected steps, samples, tokens or time, found none or a date");
  }
  if (!counts_are_positive(period) || !(period.time.value_or(1) > 0)) {
    throw_invalid("every: expected positive steps, samples, tokens and time, found {}", to_string(period));
  }
  return make_schedule<Every>(period);
}

Schedule every_end(std::int64_t steps) { return every_end(at(steps)); }
Schedule every_end(const Period& period) {
  if (period.is_empty() || period.time || period.date) {
    throw_invalid("every_end: expected steps, samples or tokens, found {}", to_string(period));
  }
  if (!counts_are_positive(period)) {
    throw_invalid("every_end: expected positive steps, samples and tokens, found {}", to_string(period));
  }
  return make_schedule<EveryEnd>(period);
}

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

Schedule operator&(Schedule a, Schedule b) { return make_schedule<Pair>(std::move(a), std::move(b), true); }
Schedule operator|(Schedule a, Schedule b) { return make_schedule<Pair>(std::move(a), std::move(b), false); }
Schedule operator!(Schedule a) { return make_schedule<Not>(std::move(a)); }

Period earliest(const Period& a, const Period& b) {
  return {.steps = earlier(a.steps, b.steps),
          .samples = earlier(a.samples, b.samples),
          .tokens = earlier(a.tokens, b.tokens),
          .time = earlier(a.time, b.time),
          .date = earlier(a.date, b.date)};
}

std::string to_string(const Schedule& schedule) { return schedule.node().to_string(); }

std::string to_string(const Period& period) {
  if (is_steps_alone(period)) return fmt::format("{}", *period.steps);
  std::string text;
  const auto add = [&](const char* name, const auto& field) {
    if (field) text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", name, *field);
  };
  add("steps", period.steps);
  add("samples", period.samples);
  add("tokens", period.tokens);
  add("time", period.time);
  add("date", period.date);
  return "{" + text + "}";
}

}  // namespace giro
