#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <giro/loop/time/elapsed.h>

namespace giro {

class Archive;

// When an action is due: if any of these holds. Steps are completed steps, from 1 in a loop written by hand.
struct ActionInterval {
  std::optional<std::int64_t> every_steps = {};  // at multiples of this
  std::optional<double> every_secs = {};         // more than this many seconds after it last ran
  std::vector<std::int64_t> on_steps = {};       // at these steps
};

// Decides when an action runs, like CLU's PeriodicAction. Call it after each step, at time `t` in seconds:
//
//   giro::PeriodicAction due("save", {.every_secs = 60});
//   for (std::int64_t step = 1; step <= 1'000; ++step) {
//     ...
//     if (due(step)) save();
//   }
//
// In giro's own loop a Schedule does this: {every({.time = 60}), save}. It is due at multiples of 60 s since the loop's
// start; every_secs counts from when the action last ran, for whatever reason.
class PeriodicAction {
 public:
  // `name` is for messages. Error(invalid_argument) for every_steps < 1 or every_secs that is not positive.
  PeriodicAction(std::string name, ActionInterval interval);

  // Whether the action runs now. Seconds count from the first call. With every_steps it must be called after every
  // step: Error(invalid_argument) for a gap or a repeated step.
  bool operator()(std::int64_t step, double t = Elapsed::now());

  // The parts of operator(), for callers with their own conditions. expect_next() is its check for gaps; a callback in
  // a loop does without it, since the schedule of its task may have gaps. see() records a step, is_due() returns
  // whether the interval makes the action due in that step, or would have in the gap before it, and ran() records that
  // it has run.
  void expect_next(std::int64_t step) const;
  void see(std::int64_t step, double t);
  bool is_due(double t) const;
  void ran(std::int64_t step, double t);
  // Whether the step seen last is `step`, or the first one after it.
  bool reaches(std::int64_t step) const noexcept { return seen_before_ < step && step <= last_step_; }
  // When it last ran, or was first called.
  std::int64_t previous_step() const noexcept { return previous_step_; }
  double previous_time() const noexcept { return previous_time_; }

  // Call this when a loop begins. Unless the loop begins at the latest step or after it, the next call counts as the
  // first.
  void begin(const Elapsed& elapsed) { is_seeded_ = is_seeded_ && last_step_ <= elapsed.steps; }
  void persist(Archive& archive);

 private:
  std::string name_;
  ActionInterval interval_;
  bool is_seeded_ = false;
  std::int64_t last_step_ = 0, seen_before_ = 0;
  std::int64_t previous_step_ = 0;
  double previous_time_ = 0;
};

}  // namespace giro
