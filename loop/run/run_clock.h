#pragma once

#include <cstdint>
#include <limits>

#include <giro/loop/arbiter.h>
#include <giro/loop/time/elapsed.h>

namespace giro::detail {

// A run's clock. Reading it can cost more than a step, so it is read at most once per step, and if the run has a time
// to notice, in every step shortly before that time and rarely long before it.
class RunClock {
 public:
  // Continues where an earlier run stopped: the time in between does not count.
  RunClock(Arbiter& arbiter, const Elapsed& elapsed) : arbiter_(arbiter) { start(elapsed); }
  void start(const Elapsed& elapsed);
  const Elapsed& started() const noexcept { return started_; }

  double now() const { return arbiter_.now(); }

  // From now on the run has to notice when a time is reached.
  void watch() { next_ = 0; }
  // The number of completed steps at which the clock is read next.
  std::int64_t next() const noexcept { return next_; }

  // Sets the date of the current step.
  void read(Elapsed& elapsed);
  // Call this when the step has changed without end_step.
  void forget() noexcept { is_read_ = false; }

  // Call this after the step's callbacks. Returns whether the clock has been read for this step.
  bool check(const Elapsed& elapsed) {
    is_due_ = elapsed.steps + 1 >= next_;
    if (is_due_) after_ = now();
    return is_due_ || is_read_;
  }
  double time_after_step(const Elapsed& elapsed) const {
    return (is_due_ ? after_ : elapsed.date) - elapsed.date_start;
  }
  // Call this after the step has been counted. If it returns true, the clock was read, and plan() has to be called with
  // the next time to notice.
  bool end_step(Elapsed& elapsed) {
    if (is_due_) elapsed.date = after_;
    is_read_ = is_due_;
    return is_due_;
  }
  void plan(const Elapsed& elapsed, double until);

 private:
  Arbiter& arbiter_;
  Elapsed started_;
  bool is_read_ = true, is_due_ = false;
  double after_ = 0;
  std::int64_t next_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t planned_at_ = 0;  // steps at the last plan, and their time
  double planned_time_ = 0;
};

}  // namespace giro::detail
