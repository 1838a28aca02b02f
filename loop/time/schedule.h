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

namespace giro {

class Archive;

namespace detail {

// What a schedule with a memory has answered in the latest step it was asked about. Asked again in that step, it says
// the same and its memory does not move.
class StepAnswer {
 public:
  // The answer for a step that is known by these three: what `due` says, or has said before.
  template <class F>
  bool get(std::int64_t steps, std::int64_t samples, double date, F&& due) {
    if (!known_ || steps != steps_ || samples != samples_ || date != date_) {
      known_ = false;  // where `due` throws
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

// What a schedule is made of: a leaf such as every(3), or a combination of others.
class ScheduleNode {
 public:
  // What the loop has to know of a schedule besides its answers.
  struct Traits {
    bool remembers = false;      // its answer depends on when it was asked before
    bool persists = false;       // has something to persist
    bool asks_user = false;      // runs code that is not giro's, which may look at anything
    bool awaits_end = false;     // may be due for no other reason than that the loop ends
    bool reads_clock = false;    // depends on the time
    bool always = false;         // due in every step, without being asked
    bool yields_to_end = false;  // may be not due for no other reason than that the loop ends
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
    return answer_.get(elapsed.steps, elapsed.samples, elapsed.date,
                       [&] { return static_cast<bool>(std::invoke(due_, elapsed)); });
  }
  Period next(const Elapsed& elapsed) const override { return at(elapsed.steps + 1); }
  Traits traits() const override {
    return {.remembers = true, .persists = kPersists, .asks_user = true, .reads_clock = true};
  }
  void persist(Archive& archive) override {
    if constexpr (kPersists) due_.persist(archive);
  }
  std::string to_string() const override { return "a function"; }
  std::unique_ptr<ScheduleNode> clone() const override { return std::make_unique<UserSchedule>(*this); }

 private:
  static constexpr bool kPersists = requires(F& f, Archive& archive) { f.persist(archive); };

  F due_;
  StepAnswer answer_;
};

}  // namespace detail

// When a callback is due: a value. Copies carry their own memory of what they have seen.
class Schedule {
 public:
  // Any callable of const Elapsed& that returns bool. It is called once a step. One with a memory may have a member
  // persist(Archive&).
  template <class F>
    requires(!std::derived_from<std::remove_cvref_t<F>, Schedule> && std::predicate<F&, const Elapsed&>)
  Schedule(F due) : node_(std::make_unique<detail::UserSchedule<F>>(std::move(due))) {}
  explicit Schedule(std::unique_ptr<detail::ScheduleNode> node) : node_(std::move(node)) {}

  Schedule(const Schedule& other) : node_(other.node_->clone()) {}
  Schedule(Schedule&&) noexcept = default;
  Schedule& operator=(const Schedule& other) { return *this = Schedule(other); }
  Schedule& operator=(Schedule&&) noexcept = default;

  // Whether it is due in the step that begins at `elapsed`. To be asked in the order of the steps. Asked again in the
  // same step (the same steps, samples and date), it says the same and remembers nothing more; only Elapsed::last may
  // have changed, and last() with it.
  bool operator()(const Elapsed& elapsed) { return node_->due(elapsed); }

  // When to ask next, after it has been asked at `elapsed`: it is not due before that period is reached, and need not
  // be asked; only a step with Elapsed::last is always worth asking about. Of a callable of the user's: the next step.
  Period next(const Elapsed& elapsed) const { return node_->next(elapsed); }

  // For the loop.
  detail::ScheduleNode::Traits traits() const { return node_->traits(); }

  // What it remembers between two steps.
  void persist(Archive& archive) { node_->persist(archive); }

  friend std::string to_string(const Schedule& schedule);

 private:
  std::unique_ptr<detail::ScheduleNode> node_;
};

// As it would be written: "every(5)", "(every(2) & after(3))".
std::string to_string(const Schedule& schedule);
// "5" or "{.samples = 60000, .time = 30}".
std::string to_string(const Period& period);

// every(n): at the steps 0, n, 2n, ... Error(invalid_argument) for n < 1.
Schedule every(std::int64_t steps);
// Any of the fields given: `steps` as above; `samples` and `time` (seconds since the loop's start) whenever another
// whole multiple was passed since the schedule was last asked. Error(invalid_argument) for none, or one that is not
// positive; dates do not recur.
Schedule every(const Period& period);

// At the other end of the same periods: in the steps that complete a multiple of `steps` or `samples`. every_end(3) is
// due at 2, 5, 8, ... Error(invalid_argument) for neither, or one that is not positive, or a time.
Schedule every_end(std::int64_t steps);
Schedule every_end(const Period& period);

Schedule always();
Schedule never();

// In the loop's last step, whatever ends it: the stop period, the dataset, a callback or a signal. Where that is known
// only when the step's callbacks have run, what last() brings runs behind them. Asked outside of a loop: Elapsed::last.
Schedule last();

// From `period` on: after(3), or after({.samples = 1'000}). A loop that another continues knows the step at which a
// period of samples or time was reached no more, only that it was. Error(invalid_argument) for an empty period.
class After : public Schedule {
 public:
  explicit After(const Period& period);
  // The schedule from there on, which sees time as if it began there: after(3).every(5) is due at 3, 8, 13, ...
  Schedule every(std::int64_t steps) const { return then(giro::every(steps)); }
  Schedule every(const Period& period) const { return then(giro::every(period)); }
  Schedule then(Schedule schedule) const;
  // The same: after(3) >> every(5).
  friend Schedule operator>>(const After& after, Schedule schedule) { return after.then(std::move(schedule)); }

 private:
  Period period_;
};
After after(std::int64_t steps);
After after(const Period& period);

// A schedule, and those that take its place when their periods are reached, one after the other; each sees time as if
// it began at its own start. piecewise(every(2), {{at(5), every(3)}, {at(11), never()}}) is due at 0, 2, 4, 5 and 8.
// Where the periods differ in kind, one that is reached before its predecessor waits for it.
// Error(invalid_argument) for an empty period, and for two in the same field of which the later is not the larger.
Schedule piecewise(Schedule schedule, std::vector<std::pair<Period, Schedule>> boundaries);

// Both, either, not. Both sides are always asked.
Schedule operator&(Schedule a, Schedule b);
Schedule operator|(Schedule a, Schedule b);
Schedule operator!(Schedule a);

// Earliest of two periods, field by field.
Period earliest(const Period& a, const Period& b);

}  // namespace giro
