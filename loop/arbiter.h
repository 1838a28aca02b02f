#pragma once

#include <giro/loop/interrupt.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// Decides what a run's schedules do not: the time, whether the run is interrupted, and whether it stops. Pass your own
// as LoopOptions::arbiter, for example in a test with its own clock, or for a group of processes that must decide
// alike. By default, this process's clock and signals and the requests of callbacks decide.
class Arbiter {
 public:
  virtual ~Arbiter() = default;

  // Seconds since the Unix epoch, never less than before. Called when a run begins, when its schedules or its end
  // depend on the time, and when it returns.
  virtual double now() { return Elapsed::now(); }
  // The same for timestamps only. May be called at any time, by one process alone. Default: now().
  virtual double date() { return now(); }
  // The signal that asks the run to end after the current step, or 0. Called after the callbacks of each step, and when
  // the run returns.
  virtual int interrupt() { return detail::interrupt_signal(); }
  // Whether a signal has asked to save since the last call. Called right after interrupt, if a callback saves.
  virtual bool save() { return detail::take_save_signal(); }
  // Whether the run ends after the step that begins at `elapsed`; `asked`: whether a callback has asked for it. Called
  // after on_start and after the callbacks of each step. If it refuses, the callbacks that the stop had skipped run,
  // and it is called again.
  virtual bool stop(bool asked, [[maybe_unused]] const Elapsed& elapsed) { return asked; }
  // Called when an error has ended the run. From then on only date() is called.
  virtual void set_failed() noexcept {}
};

}  // namespace giro
