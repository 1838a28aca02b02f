#pragma once

#include <atomic>

#include <giro/runtime/not_copied.h>

namespace giro::detail {

// The engine acts on these signals: RunEngine::check_signals (loop/run/run_engine.cpp).
//
// While a scope lives, SIGINT and SIGTERM ask the running loops to finish their step instead of ending the process.
// Repeated signals change nothing: launchers forward a signal that the whole job also receives, and schedulers repeat
// it when a job's time is up. Neither may cost the save. But a SIGINT half a second or more after the first one means
// that the user does not want to wait, and has its original effect. A signal that the process ignores stays ignored.
//
// Scopes may nest and exist in several threads; the outermost restores the original handlers. A scope that is not
// enabled leaves the signals to the program, and so do all scopes within it in the same thread: the outermost loop
// decides. With `saves`, SIGUSR1 asks to save and continue; otherwise it belongs to the program. Loops within a saving
// scope in the same thread ignore signals, so that the save covers a whole step.
class InterruptScope : NotCopied {
 public:
  explicit InterruptScope(bool enabled, bool saves = false);
  ~InterruptScope();

 private:
  bool enabled_;
  bool leaves_to_program_;
  bool saves_;
};

// The requests of signals: the signal that asks to end, and whether one asks to save.
inline std::atomic<unsigned> pending_signals = 0;
inline constexpr unsigned kEndSignal = 0xFF, kSaveRequested = 0x100;
inline bool has_pending_signals() noexcept { return pending_signals.load(std::memory_order_relaxed) != 0; }

// The signal that has asked to end, or 0.
inline int interrupt_signal() noexcept {
  return static_cast<int>(pending_signals.load(std::memory_order_relaxed) & kEndSignal);
}
// With several ranks, the signal that they have agreed on, or 0; else -1.
inline std::atomic<int> agreed_signal = -1;
// The signal that this process acts on: the agreed one with several ranks, else the one received.
inline int effective_signal() noexcept {
  const int agreed = agreed_signal.load(std::memory_order_relaxed);
  return agreed >= 0 ? agreed : interrupt_signal();
}
// Whether a loop that begins now in this thread would be inside a loop that saves.
bool is_in_saving_loop() noexcept;
// Whether an evaluation in this thread may have been cut short by a signal.
inline bool may_be_interrupted() noexcept { return effective_signal() != 0 && !is_in_saving_loop(); }
// Whether a signal has asked to save since the last call.
inline bool take_save_signal() noexcept { return (pending_signals.fetch_and(~kSaveRequested) & kSaveRequested) != 0; }

}  // namespace giro::detail
