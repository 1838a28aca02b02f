#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <giro/loop/time/elapsed.h>

namespace giro {

class Archive;

// When an action is due: whenever one of these says so. Steps are completed steps, which a loop by hand counts from 1.
struct ActionInterval {
  std::optional<std::int64_t> every_steps = {};  // at the multiples
  std::optional<double> every_secs = {};         // once more seconds than this have passed since it last ran
  std::vector<std::int64_t> on_steps = {};       // at these
};

// Decides when an action runs, as CLU's PeriodicAction does. To be asked after each step, at time `t` in seconds:
//
//   giro::PeriodicAction due("save", {.every_secs = 60});
//   for (std::int64_t step = 1; step <= 1'000; ++step) {
//     ...
//     if (due(step)) save();
//   }
//
// In a loop of giro's a Schedule does this: {every({.time = 60}), save}, which goes by multiples of 60 s since the
// loop's start, where this one goes by the time since the action last ran, for whatever reason it did.
class PeriodicAction {
 public:
  // `name` is for messages. Error(invalid_argument) for every_steps below 1 or every_secs that is not positive.
  PeriodicAction(std::string name, ActionInterval interval);

  // Whether the action runs now. The first call is what seconds are counted from. With every_steps, steps come one by
  // one: Error(invalid_argument) for a gap, or for a step that comes again.
  bool operator()(std::int64_t step, double t = Elapsed::now());

  // Whether a step is the first, or the one after the latest.
  bool follows(std::int64_t step) const noexcept { return !is_seeded_ || step == last_step_ + 1; }
  std::int64_t last_step() const noexcept { return last_step_; }
  // The same in parts, for what has a word in it as well: the step is there; whether the interval makes it due; the
  // action has run.
  void see(std::int64_t step, double t);
  bool is_due(std::int64_t step, double t) const;
  void ran(std::int64_t step, double t);
  // When it last ran, or was first asked.
  std::int64_t previous_step() const noexcept { return previous_step_; }
  double previous_time() const noexcept { return previous_time_; }

  // A loop begins: steps count on from here, or the next call is the first.
  void begin(const Elapsed& elapsed);
  void persist(Archive& archive);

 private:
  std::string name_;
  ActionInterval interval_;
  bool is_seeded_ = false;
  std::int64_t last_step_ = 0;
  std::int64_t previous_step_ = 0;
  double previous_time_ = 0;
};

}  // namespace giro
