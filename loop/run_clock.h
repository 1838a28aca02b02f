#pragma once

#include <cstdint>
#include <utility>

#include <giro/loop/arbiter.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/time/elapsed.h>
#include <giro/loop/time/wake.h>

namespace giro::detail {

// A run's clock, read as rarely as possible, and its signals.
class RunClock {
 public:
  // Continues where an earlier run stopped: the time in between does not count. If `arbiter` is shared by several
  // ranks, its date() is this rank's own.
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
  // For timestamps only.
  double date() const { return arbiter_ != nullptr ? arbiter_->date() : Elapsed::now(); }
  // The date of logs that arrive while a run is at `elapsed`. A custom arbiter is not called, since the number of calls
  // would depend on when they arrive.
  double date_of_arrival(const Elapsed& elapsed) const {
    return arbiter_ != nullptr && !is_group_ ? elapsed.date : date();
  }
  bool take_save_signal() const { return arbiter_ != nullptr ? arbiter_->save() : detail::take_save_signal(); }
  int interrupt() const { return arbiter_ != nullptr ? arbiter_->interrupt() : interrupt_signal(); }

  // `timed`: whether the run has to notice when a time is reached.
  void watch(bool timed) { watch_ = ClockWatch(timed); }
  // The number of completed steps at which the clock is read next.
  std::int64_t next_look() const { return watch_.next(); }

  // Sets the date of the current step; reads the clock at most once per step.
  void read(Elapsed& elapsed) {
    if (!std::exchange(is_read_, true)) elapsed.date = now();
  }
  void forget() noexcept { is_read_ = false; }

  // Call this after the step's callbacks. Returns whether the clock has been read for this step.
  bool look(const Elapsed& elapsed) {
    looks_ = watch_.is_due(elapsed.steps + 1);
    if (looks_) after_ = now();
    return looks_ || is_read_;
  }
  double time_after_step(const Elapsed& elapsed) const { return (looks_ ? after_ : elapsed.date) - elapsed.date_start; }
  // Call this after the step has been counted. If it returns true, the clock was read, and plan() has to be called with
  // the next time to notice.
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
