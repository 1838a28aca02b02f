#pragma once

#include <giro/loop/time/elapsed.h>

namespace giro {

// Where the decisions of a run are made that do not follow from its schedules: what time it is, whether it is
// interrupted, whether it stops. One is given to a loop as LoopOptions::arbiter by a program that has the last word on
// them, such as a test with a clock of its own, or a group of processes that have to decide alike. Without one they are
// this process's clock and signals, and what its callbacks ask for.
class Arbiter {
 public:
  virtual ~Arbiter() = default;

  // Seconds since the Unix epoch, never less than before. Asked where a run begins, where its schedules or its end
  // depend on the time, and where it comes back.
  virtual double now();
  // The same for what only says when something was: asked at any time, by one process alone. Default: now().
  virtual double date() { return now(); }
  // The signal that asks the run to end after the step at hand, or 0. Asked after the callbacks of each step, and where
  // the run comes back.
  virtual int interrupt();
  // Whether a signal has asked to save since this was last asked: directly after interrupt, where a callback saves.
  virtual bool save();
  // Whether the run ends after the step that begins at `elapsed`, of which a callback has asked so or not. Asked after
  // the callbacks of on_start and of each step; where it refuses what was asked for, the callbacks that the stop has
  // skipped run, and it is asked again.
  virtual bool stop(bool asked, const Elapsed& elapsed);
  // An error has ended the run: nothing is asked any more but date().
  virtual void set_failed() noexcept {}
};

}  // namespace giro
