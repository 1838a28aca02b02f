#include <giro/loop/time/schedule.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <giro/runtime/files/archive.h>

#include "loop/time/internal/schedule_nodes.h"

namespace giro {
namespace {

using detail::ScheduleNode;

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
    return detail::is_steps_alone(a) && detail::is_steps_alone(b) ? at(std::max(*a.steps, *b.steps)) : earliest(a, b);
  }
  Traits traits() const override { return detail::both(a_.traits(), b_.traits()); }
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

}  // namespace

Schedule always() { return detail::make_schedule<Constant>(true); }
Schedule never() { return detail::make_schedule<Constant>(false); }
Schedule last() { return detail::make_schedule<Last>(); }

Schedule operator&(Schedule a, Schedule b) { return detail::make_schedule<Pair>(std::move(a), std::move(b), true); }
Schedule operator|(Schedule a, Schedule b) { return detail::make_schedule<Pair>(std::move(a), std::move(b), false); }
Schedule operator!(Schedule a) { return detail::make_schedule<Not>(std::move(a)); }

Period earliest(const Period& a, const Period& b) {
  return {.steps = detail::earliest(a.steps, b.steps),
          .samples = detail::earliest(a.samples, b.samples),
          .tokens = detail::earliest(a.tokens, b.tokens),
          .time = detail::earliest(a.time, b.time),
          .date = detail::earliest(a.date, b.date)};
}

std::string to_string(const Schedule& schedule) { return schedule.node_->to_string(); }

std::string to_string(const Period& period) {
  if (detail::is_steps_alone(period)) return fmt::format("{}", *period.steps);
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
