#include <giro/loop/time/schedule.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include <giro/runtime/files/archive.h>

#include "loop/time/schedule_nodes.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using detail::ScheduleNode, detail::StepCache, detail::both, detail::check_not_empty, detail::is_steps_alone,
    detail::make_schedule;

template <class T>
std::optional<T> earlier(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

using Traits = ScheduleNode::Traits;

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

bool counts_are_positive(const Period& period) {
  return period.steps.value_or(1) > 0 && period.samples.value_or(1) > 0 && period.tokens.value_or(1) > 0;
}

}  // namespace

Schedule detail::named(Schedule schedule, std::string name) {
  schedule.name_ = std::move(name);
  return schedule;
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

std::string to_string(const Schedule& schedule) {
  return schedule.name_.empty() ? schedule.node().to_string() : schedule.name_;
}

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
