#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include <giro/loop/arbiter.h>
#include <giro/loop/time/elapsed.h>

namespace giro::detail {

// A run's clock. Reading it can cost more than a step, so it is read at most once per step, and if the run has a time
// to notice, in every step shortly before that time and rarely long before it.
class RunClock {
 public:
  explicit RunClock(Arbiter& arbiter) : arbiter_(arbiter) {}

  double now() const { return arbiter_.now(); }
  // Continues where an earlier run stopped: the time in between does not count.
  void start(Elapsed& elapsed) {
    const double now = this->now();
    elapsed.date_start = now - elapsed.time();
    elapsed.previous_date += now - elapsed.date;
    elapsed.date = now;
    elapsed.last = false;
    read_at_ = elapsed.steps;
  }
  // Sets the date of the current step.
  void read(Elapsed& elapsed) {
    if (std::exchange(read_at_, elapsed.steps) != elapsed.steps) elapsed.date = now();
  }

  // From now on the run has to notice when a time is reached.
  void watch() { next_ = 0; }
  // The number of completed steps at which the clock is read next.
  std::int64_t next() const noexcept { return next_; }
  // The latest known time. Call this after the step's callbacks.
  double time_after(const Elapsed& elapsed) {
    after_ = elapsed.steps + 1 < next_ ? elapsed.date : now();
    return after_ - elapsed.date_start;
  }
  // Call this after the step that reaches next() has been counted. `until` is the next time to notice.
  void end_step(Elapsed& elapsed, double until) {
    elapsed.date = after_;
    read_at_ = elapsed.steps;
    constexpr double kMaxSteps = 128;
    double steps = 1;
    if (elapsed.steps > planned_at_ && elapsed.time() > planned_time_) {
      const double step_time = (elapsed.time() - planned_time_) / static_cast<double>(elapsed.steps - planned_at_);
      steps = std::clamp((until - elapsed.time()) / step_time / 2, 1.0, kMaxSteps);
    }
    next_ = elapsed.steps + static_cast<std::int64_t>(steps);
    planned_at_ = elapsed.steps;
    planned_time_ = elapsed.time();
  }

 private:
  Arbiter& arbiter_;
  std::int64_t read_at_ = -1;  // the number of completed steps at which the date was read last
  double after_ = 0;
  std::int64_t next_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t planned_at_ = 0;  // steps at the last plan, and their time
  double planned_time_ = 0;
};

}  // namespace giro::detail
