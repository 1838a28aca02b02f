#pragma once

#include <cstdint>
#include <utility>

#include <giro/loop/arbiter.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/time/elapsed.h>
#include <giro/loop/time/wake.h>

namespace giro::detail {

// The time of a run, which is looked at as seldom as what goes by it allows, and its signals.
class RunClock {
 public:
  // Goes on from where an earlier run has left off: the time in between does not count.
  // Where `arbiter` is that of several ranks, its date() is this one's own.
  RunClock(Arbiter* arbiter, bool is_group, const Elapsed& elapsed) : arbiter_(arbiter), is_group_(is_group) {
    start(elapsed);
  }
  void start(const Elapsed& elapsed) {
    const double now = this->now();
    started_ = elapsed;
    started_.date_start = now - elapsed.time();
    started_.previous_date += now - elapsed.date;
    started_.date = now;
    started_.last = false;
  }
  const Elapsed& started() const noexcept { return started_; }

  double now() const { return arbiter_ != nullptr ? arbiter_->now() : Elapsed::now(); }
  // For what only says when something was.
  double date() const { return arbiter_ != nullptr ? arbiter_->date() : Elapsed::now(); }
  // Of logs that arrive while a run is at `elapsed`. A program's arbiter is not asked, for how often that would be
  // depends on when they do.
  double date_of_arrival(const Elapsed& elapsed) const {
    return arbiter_ != nullptr && !is_group_ ? elapsed.date : date();
  }
  bool take_save_signal() const { return arbiter_ != nullptr ? arbiter_->save() : detail::take_save_signal(); }
  int interrupt() const { return arbiter_ != nullptr ? arbiter_->interrupt() : interrupt_signal(); }

  // Whether a time has to be noticed when it is reached.
  void watch(bool timed) { watch_ = ClockWatch(timed); }
  // The number of completed steps at which it is looked at next.
  std::int64_t next_look() const { return watch_.next(); }

  // The date of the step at hand, read at most once.
  void read(Elapsed& elapsed) {
    if (!std::exchange(is_read_, true)) elapsed.date = now();
  }
  void forget() noexcept { is_read_ = false; }

  // After the step's callbacks. Whether it tells a time that the step did not begin with.
  bool look(const Elapsed& elapsed) {
    looks_ = watch_.is_due(elapsed.steps + 1);
    if (looks_) after_ = now();
    return looks_ || is_read_;
  }
  double time_after_step(const Elapsed& elapsed) const { return (looks_ ? after_ : elapsed.date) - elapsed.date_start; }
  // The step is counted. Whether it was looked at: plan() has to be told then what has to be noticed next.
  bool end_step(Elapsed& elapsed) {
    if (looks_) elapsed.date = after_;
    is_read_ = looks_;
    return looks_;
  }
  void plan(const Elapsed& elapsed, double until) { watch_.looked(elapsed, until); }

 private:
  Arbiter* arbiter_;
  bool is_group_;
  Elapsed started_;
  ClockWatch watch_{false};
  bool is_read_ = true;
  bool looks_ = false;
  double after_ = 0;
};

}  // namespace giro::detail
