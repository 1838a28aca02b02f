#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>

namespace giro {

class Archive;
class Schedule;

namespace detail {

// `schedule`, with another text.
Schedule named(Schedule schedule, std::string name);

// Caches the result of a schedule with a memory for the latest step it was evaluated in. Evaluated again in that step,
// it returns the same result and its memory does not change.
class StepCache {
 public:
  // The result for the step with these three values: of `due`, or cached.
  template <class F>
  bool get(std::int64_t steps, std::int64_t samples, double date, F&& due) {
    if (!known_ || steps != steps_ || samples != samples_ || date != date_) {
      known_ = false;  // in case `due` throws
      due_ = due();
      known_ = true;
      steps_ = steps;
      samples_ = samples;
      date_ = date;
    }
    return due_;
  }

 private:
  bool known_ = false, due_ = false;
  std::int64_t steps_ = 0, samples_ = 0;
  double date_ = 0;
};

// A part of a schedule: a leaf, for example every(3), or a combination of others.
class ScheduleNode {
 public:
  // What the loop has to know about a schedule in addition to its results.
  struct Traits {
    bool remembers = false;       // its result depends on when it was evaluated before
    bool persists = false;        // has something to persist
    bool runs_user_code = false;  // runs user code, which may read anything
    bool awaits_end = false;      // may be due only because the loop ends
    bool reads_clock = false;     // depends on the time
    bool always = false;          // due in every step, without being evaluated
    bool yields_to_end = false;   // may be not due only because the loop ends
  };

  virtual ~ScheduleNode() = default;
  virtual bool due(const Elapsed& elapsed) = 0;
  virtual Period next(const Elapsed& elapsed) const = 0;
  virtual Traits traits() const { return {}; }
  virtual void persist(Archive&) {}
  virtual std::string to_string() const = 0;
  virtual std::unique_ptr<ScheduleNode> clone() const = 0;
};

template <class F>
class UserSchedule final : public ScheduleNode {
 public:
  explicit UserSchedule(F due) : due_(std::move(due)) {}
  bool due(const Elapsed& elapsed) override {
    return cache_.get(elapsed.steps, elapsed.samples, elapsed.date,
                      [&] { return static_cast<bool>(std::invoke(due_, elapsed)); });
  }
  Period next(const Elapsed& elapsed) const override { return at(elapsed.steps + 1); }
  Traits traits() const override {
    return {.remembers = true, .persists = kPersists, .runs_user_code = true, .reads_clock = true};
  }
  void persist(Archive& archive) override {
    if constexpr (kPersists) due_.persist(archive);
  }
  std::string to_string() const override { return "a function"; }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<UserSchedule>(*this); }

 private:
  static constexpr bool kPersists = requires(F& f, Archive& archive) { f.persist(archive); };

  F due_;
  StepCache cache_;
};

}  // namespace detail

// When a callback is due. A value: each copy has its own memory of what it has seen.
class Schedule {
 public:
  // Any callable of const Elapsed& that returns bool. It is called once per step. A callable with a memory may have a
  // member persist(Archive&).
  template <class F>
    requires(!std::derived_from<std::remove_cvref_t<F>, Schedule> && std::predicate<F&, const Elapsed&>)
  Schedule(F due) : node_(std::make_unique<detail::UserSchedule<F>>(std::move(due))) {}
  explicit Schedule(std::unique_ptr<detail::ScheduleNode> node) : node_(std::move(node)) {}

  Schedule(const Schedule& other) : node_(other.node().clone()), name_(other.name_) {}
  Schedule(Schedule&&) noexcept = default;
  Schedule& operator=(const Schedule& other) { return *this = Schedule(other); }
  Schedule& operator=(Schedule&&) noexcept = default;

  // Whether it is due in the step that begins at `elapsed`. Call it in step order. Called again in the same step (the
  // same steps, samples and date), it returns the same result and its memory does not change. Only Elapsed::last may
  // differ, and last() with it.
  bool operator()(const Elapsed& elapsed) { return node().due(elapsed); }

  // When it may next be due, after a call at `elapsed`. Until then it need not be called, except in a step with
  // Elapsed::last. For a user's callable this is the next step.
  Period next(const Elapsed& elapsed) const { return node().next(elapsed); }

  // For the loop.
  detail::ScheduleNode::Traits traits() const { return node().traits(); }

  // Saves or restores what it remembers between two steps.
  void persist(Archive& archive) { node().persist(archive); }

  friend std::string to_string(const Schedule& schedule);
  friend Schedule detail::named(Schedule schedule, std::string name);

 private:
  detail::ScheduleNode& node() const {
    if (!node_) throw Error(ErrorCode::invalid_argument, "a schedule was used that had been moved from");
    return *node_;
  }

  std::unique_ptr<detail::ScheduleNode> node_;
  std::string name_;  // its text; empty: the node's
};

// As written in code: "every(5)", "(every(2) & after(3))".
std::string to_string(const Schedule& schedule);
// "5" or "{.samples = 60000, .time = 30}".
std::string to_string(const Period& period);

// every(n): due at the steps 0, n, 2n, ... Error(invalid_argument) for n < 1.
Schedule every(std::int64_t steps);
// Due if any of the given fields is: `steps` as above; `samples`, `tokens` and `time` (seconds since the loop's start)
// if a whole multiple was passed since the schedule was last evaluated. Error(invalid_argument) if no field is given or
// one is not positive, and for a date, since dates do not recur; when evaluated, for tokens if there is no
// LoopOptions::tokens_per_sample. Batches need not end at a multiple.
Schedule every(const Period& period);
template <detail::OtherNumber T>
Schedule every(T steps) {
  return every(at(steps));
}

// Due at the end of the same periods: in the steps that complete a multiple of `steps`, `samples` or `tokens`.
// every_end(3) is due at 2, 5, 8, ... Error(invalid_argument) if none is given or one is not positive, and for a time
// or a date.
Schedule every_end(std::int64_t steps);
Schedule every_end(const Period& period);
template <detail::OtherNumber T>
Schedule every_end(T steps) {
  return every_end(at(steps));
}

Schedule always();
Schedule never();

// Due in the loop's last step, whatever ends it: the stop period, the dataset, a callback or a signal. If the end is
// known only after the step's callbacks have run, the callbacks of last() run after them. Outside of a loop:
// Elapsed::last.
Schedule last();

// Due from `period` on: after(3), or after({.samples = 1'000}). A loop that continues another one knows only that a
// period of samples, tokens or time was reached, not in which step. Error(invalid_argument) for an empty period.
class After : public Schedule {
 public:
  explicit After(const Period& period);
  // `schedule` from there on, counting from there: after(3).every(5) is due at 3, 8, 13, ...
  Schedule every(std::int64_t steps) const { return then(giro::every(steps)); }
  Schedule every(const Period& period) const { return then(giro::every(period)); }
  template <detail::OtherNumber T>
  Schedule every(T steps) const {
    return every(at(steps));
  }
  Schedule then(Schedule schedule) const;
  // The same: after(3) >> every(5).
  friend Schedule operator>>(const After& after, Schedule schedule) { return after.then(std::move(schedule)); }

 private:
  Period period_;
};
After after(std::int64_t steps);
After after(const Period& period);
template <detail::OtherNumber T>
After after(T steps) {
  return after(at(steps));
}

// Starts with `schedule` and switches to the next schedule when its period is reached. Each schedule counts from its
// own start. piecewise(every(2), {{at(5), every(3)}, {at(11), never()}}) is due at 0, 2, 4, 5 and 8. If periods have
// different fields, one that is reached before its predecessor takes effect after it. Error(invalid_argument) for an
// empty period, and if two periods have the same field and the later one is not larger.
Schedule piecewise(Schedule schedule, std::vector<std::pair<Period, Schedule>> boundaries);

// And, or, not. Both sides are always evaluated.
Schedule operator&(Schedule a, Schedule b);
Schedule operator|(Schedule a, Schedule b);
Schedule operator!(Schedule a);

// The earlier of two periods, field by field.
Period earliest(const Period& a, const Period& b);

}  // namespace giro
