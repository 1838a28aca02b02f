#include <giro/loop/time/schedule.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include <giro/runtime/error.h>

namespace giro {
namespace {

using detail::ScheduleNode;

template <class Node, class... Args>
Schedule make(Args&&... args) {
  return Schedule(std::make_unique<Node>(std::forward<Args>(args)...));
}

template <class T>
std::optional<T> earliest(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

bool is_empty(const Period& p) { return !p.steps && !p.samples && !p.time && !p.date; }
bool is_steps_alone(const Period& p) { return p.steps && !p.samples && !p.time && !p.date; }

void check_boundary(const Period& period, const char* schedule) {
  if (is_empty(period)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: expected a period of steps, samples, time or a date, found an empty one", schedule));
  }
}

class Every final : public ScheduleNode {
 public:
  explicit Every(const Period& period) : period_(period) {}

  bool due(const Elapsed& elapsed) override {
    const bool steps_due = period_.steps && (elapsed.steps == multiple_ || elapsed.steps % *period_.steps == 0);
    if (steps_due) multiple_ = elapsed.steps + *period_.steps;
    const bool samples_due = period_.samples && advance(samples_seen_, elapsed.previous_samples / *period_.samples,
                                                        elapsed.samples / *period_.samples);
    const bool time_due = period_.time && advance(time_seen_, multiples(elapsed.previous_date - elapsed.date_start),
                                                  multiples(elapsed.time()));
    return steps_due || samples_due || time_due;
  }

  Period next(const Elapsed& elapsed) const override {
    Period next;
    if (period_.steps) {
      const bool was_due = elapsed.steps + *period_.steps == multiple_;
      next.steps = was_due ? multiple_ : (elapsed.steps / *period_.steps + 1) * *period_.steps;
    }
    if (period_.samples) next.samples = (elapsed.samples / *period_.samples + 1) * *period_.samples;
    if (period_.time) next.time = static_cast<double>(multiples(elapsed.time()) + 1) * *period_.time;
    return next;
  }

  Traits traits() const override {
    return {.remembers = period_.samples || period_.time,
            .asks_user = false,
            .awaits_end = false,
            .reads_clock = period_.time.has_value(),
            .always = period_.steps == 1};
  }
  std::string to_string() const override { return fmt::format("every({})", giro::to_string(period_)); }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Every>(*this); }

 private:
  // Comparing quotients misses no boundary, however far the counter jumps. One that was never asked has seen what was
  // passed by the step before, so that a continued loop goes on where the first left off.
  static bool advance(std::optional<std::int64_t>& seen, std::int64_t before, std::int64_t quotient) {
    const std::int64_t last = seen.value_or(before);
    seen = quotient;
    return last < quotient;
  }
  std::int64_t multiples(double seconds) const {
    return static_cast<std::int64_t>(std::floor(std::max(seconds, 0.0) / *period_.time));
  }

  Period period_;
  std::int64_t multiple_ = 0;  // of the steps: the one behind the latest that was due, which spares divisions
  std::optional<std::int64_t> samples_seen_;
  std::optional<std::int64_t> time_seen_;
};

// Depends on nothing but the step at hand, and on where its samples begin to count.
class EveryEnd final : public ScheduleNode {
 public:
  explicit EveryEnd(const Period& period) : period_(period) {}

  bool due(const Elapsed& elapsed) override {
    const auto completes = [](const std::optional<std::int64_t>& n, std::int64_t count, std::int64_t more) {
      return n && (count + more) / *n > count / *n;
    };
    return completes(period_.steps, elapsed.steps, 1) ||
           completes(period_.samples, elapsed.samples, elapsed.step_samples);
  }
  Period next(const Elapsed& elapsed) const override {
    // How many samples later steps have is not known.
    if (period_.samples) return at(elapsed.steps + 1);
    return at(((elapsed.steps + 1) / *period_.steps + 1) * *period_.steps - 1);
  }
  Traits traits() const override {
    // Within piecewise, samples count from where the boundary was first seen.
    return {.remembers = period_.samples.has_value(), .asks_user = false, .awaits_end = false, .reads_clock = false};
  }
  std::string to_string() const override { return fmt::format("every_end({})", giro::to_string(period_)); }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<EveryEnd>(*this); }

 private:
  Period period_;
};

class Constant final : public ScheduleNode {
 public:
  explicit Constant(bool due) : due_(due) {}
  bool due(const Elapsed&) override { return due_; }
  Period next(const Elapsed& elapsed) const override { return due_ ? at(elapsed.steps + 1) : Period{}; }
  Traits traits() const override {
    return {.remembers = false, .asks_user = false, .awaits_end = false, .reads_clock = false, .always = due_};
  }
  std::string to_string() const override { return due_ ? "always()" : "never()"; }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Constant>(*this); }

 private:
  bool due_;
};

class Last final : public ScheduleNode {
 public:
  bool due(const Elapsed& elapsed) override { return elapsed.last; }
  Period next(const Elapsed&) const override { return {}; }
  Traits traits() const override {
    return {.remembers = false, .asks_user = false, .awaits_end = true, .reads_clock = false};
  }
  std::string to_string() const override { return "last()"; }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Last>(); }
};

ScheduleNode::Traits either(const ScheduleNode::Traits& a, const ScheduleNode::Traits& b) {
  return {.remembers = a.remembers || b.remembers,
          .asks_user = a.asks_user || b.asks_user,
          .awaits_end = a.awaits_end || b.awaits_end,
          .reads_clock = a.reads_clock || b.reads_clock};
}

class Piecewise final : public ScheduleNode {
 public:
  Piecewise(Schedule first, std::vector<std::pair<Period, Schedule>> boundaries, std::string text = "")
      : first_(std::move(first)), boundaries_(std::move(boundaries)), text_(std::move(text)) {}

  bool due(const Elapsed& elapsed) override {
    std::size_t active = active_;
    for (std::size_t i = active; i < boundaries_.size(); ++i) {
      if (elapsed >= boundaries_[i].first) active = i + 1;
    }
    if (active != active_) start_ = start_of(boundaries_[active - 1].first, elapsed);
    active_ = active;
    return (active_ == 0 ? first_ : boundaries_[active_ - 1].second)(relative(elapsed));
  }

  Period next(const Elapsed& elapsed) const override {
    Period next = schedule().next(relative(elapsed));
    if (next.steps) *next.steps += start_.steps;
    if (next.samples) *next.samples += start_.samples;
    if (next.time) *next.time += start_.time;
    for (std::size_t i = active_; i < boundaries_.size(); ++i) next = giro::earliest(next, boundaries_[i].first);
    return next;
  }

  Traits traits() const override {
    Traits all = first_.traits();
    for (const auto& [period, schedule] : boundaries_) {
      // Where a boundary by steps lies does not depend on when it was first seen.
      all = either(all, {.remembers = !is_steps_alone(period),
                         .asks_user = false,
                         .awaits_end = false,
                         .reads_clock = period.time || period.date});
      all = either(all, schedule.traits());
    }
    return all;
  }

  std::string to_string() const override {
    if (!text_.empty()) return text_;
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
  };

  // The boundary itself in what has reached it, however late it is seen, and the place where it is seen in the rest.
  static Start start_of(const Period& boundary, const Elapsed& elapsed) {
    Start start{elapsed.steps, elapsed.samples, elapsed.time()};
    if (boundary.steps && elapsed.steps >= *boundary.steps) start.steps = *boundary.steps;
    if (boundary.samples && elapsed.samples >= *boundary.samples) start.samples = *boundary.samples;
    if (boundary.time && elapsed.time() >= *boundary.time) start.time = *boundary.time;
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
  std::vector<std::pair<Period, Schedule>> boundaries_;
  std::string text_;
  std::size_t active_ = 0;  // boundaries that were reached
  Start start_;             // of the schedule that is active
};

class Both final : public ScheduleNode {
 public:
  Both(Schedule a, Schedule b) : a_(std::move(a)), b_(std::move(b)), remembers_(traits().remembers) {}

  bool due(const Elapsed& elapsed) override {
    const bool a = a_(elapsed), b = b_(elapsed);
    return a && b;
  }
  Period next(const Elapsed& elapsed) const override {
    const Period a = a_.next(elapsed), b = b_.next(elapsed);
    // What remembers has to be asked whenever it could be due, or it would be due later than it is.
    if (remembers_) return giro::earliest(a, b);
    if (is_empty(a) || is_empty(b)) return {};
    return is_steps_alone(a) && is_steps_alone(b) ? at(std::max(*a.steps, *b.steps)) : giro::earliest(a, b);
  }
  Traits traits() const override { return either(a_.traits(), b_.traits()); }
  std::string to_string() const override { return fmt::format("({} & {})", giro::to_string(a_), giro::to_string(b_)); }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Both>(*this); }

 private:
  Schedule a_, b_;
  bool remembers_;
};

class Either final : public ScheduleNode {
 public:
  Either(Schedule a, Schedule b) : a_(std::move(a)), b_(std::move(b)) {}

  bool due(const Elapsed& elapsed) override {
    const bool a = a_(elapsed), b = b_(elapsed);
    return a || b;
  }
  Period next(const Elapsed& elapsed) const override { return giro::earliest(a_.next(elapsed), b_.next(elapsed)); }
  Traits traits() const override { return either(a_.traits(), b_.traits()); }
  std::string to_string() const override { return fmt::format("({} | {})", giro::to_string(a_), giro::to_string(b_)); }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Either>(*this); }

 private:
  Schedule a_, b_;
};

class Not final : public ScheduleNode {
 public:
  explicit Not(Schedule a) : a_(std::move(a)) {}
  bool due(const Elapsed& elapsed) override { return !a_(elapsed); }
  Period next(const Elapsed& elapsed) const override { return at(elapsed.steps + 1); }
  Traits traits() const override {
    // Not being last is no reason to wait for the end.
    Traits traits = a_.traits();
    traits.awaits_end = false;
    traits.always = false;
    return traits;
  }
  std::string to_string() const override { return "!" + giro::to_string(a_); }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<Not>(*this); }

 private:
  Schedule a_;
};

}  // namespace

Schedule every(std::int64_t steps) { return every(at(steps)); }

Schedule every(const Period& period) {
  if (is_empty(period) || period.date) {
    throw Error(ErrorCode::invalid_argument, "every: expected steps, samples or time, found none or a date");
  }
  if (period.steps.value_or(1) < 1 || period.samples.value_or(1) < 1 || !(period.time.value_or(1) > 0)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("every: expected positive steps, samples and time, found {}", to_string(period)));
  }
  return make<Every>(period);
}

Schedule every_end(std::int64_t steps) { return every_end(at(steps)); }
Schedule every_end(const Period& period) {
  if (is_empty(period) || period.time || period.date) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("every_end: expected steps or samples, found {}", to_string(period)));
  }
  if (period.steps.value_or(1) < 1 || period.samples.value_or(1) < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("every_end: expected positive steps and samples, found {}", to_string(period)));
  }
  return make<EveryEnd>(period);
}

Schedule always() { return make<Constant>(true); }
Schedule never() { return make<Constant>(false); }
Schedule last() { return make<Last>(); }

Schedule piecewise(Schedule schedule, std::vector<std::pair<Period, Schedule>> boundaries) {
  for (const auto& [period, next] : boundaries) check_boundary(period, "piecewise");
  return make<Piecewise>(std::move(schedule), std::move(boundaries));
}

After::After(const Period& period)
    : Schedule(make<Piecewise>(never(), std::vector<std::pair<Period, Schedule>>{{period, always()}},
                               fmt::format("after({})", to_string(period)))),
      period_(period) {
  check_boundary(period, "after");
}
Schedule After::then(Schedule schedule) const {
  const std::string text = fmt::format("after({}).then({})", to_string(period_), to_string(schedule));
  return make<Piecewise>(never(), std::vector<std::pair<Period, Schedule>>{{period_, std::move(schedule)}}, text);
}
After after(std::int64_t steps) { return After(at(steps)); }
After after(const Period& period) { return After(period); }

Schedule operator&(Schedule a, Schedule b) { return make<Both>(std::move(a), std::move(b)); }
Schedule operator|(Schedule a, Schedule b) { return make<Either>(std::move(a), std::move(b)); }
Schedule operator!(Schedule a) { return make<Not>(std::move(a)); }

Period earliest(const Period& a, const Period& b) {
  return {.steps = earliest(a.steps, b.steps),
          .samples = earliest(a.samples, b.samples),
          .time = earliest(a.time, b.time),
          .date = earliest(a.date, b.date)};
}

std::string to_string(const Schedule& schedule) { return schedule.node_->to_string(); }

std::string to_string(const Period& period) {
  if (is_steps_alone(period)) return fmt::format("{}", *period.steps);
  std::string text;
  const auto add = [&](const char* name, const auto& field) {
    if (field) text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", name, *field);
  };
  add("steps", period.steps);
  add("samples", period.samples);
  add("time", period.time);
  add("date", period.date);
  return "{" + text + "}";
}

}  // namespace giro
