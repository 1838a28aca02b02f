#pragma once

#include <atomic>

namespace giro::detail {

// While one lives, SIGINT and SIGTERM ask the loops that run to finish their step instead of ending the process,
// however often they come: launchers pass on what the whole job gets as well, schedulers ask once more at the end of a
// job's time, and neither is to cost the save. But a SIGINT half a second or more after the first one is a user who
// does not want to wait, and does what it would have done. A signal that the process ignores stays ignored. Scopes may
// nest, and lie in several threads: the outermost restores what was there. One that is not enabled leaves the signals
// to the program, and so do those within it in the same thread, whatever they say: the outermost loop decides. Where it
// `saves`, SIGUSR1 asks to save and go on, else it is the program's; and the loops within it in the same thread do not
// heed signals, so that what is saved is a whole step.
class InterruptScope {
 public:
  explicit InterruptScope(bool enabled, bool saves = false);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  bool enabled_;
  bool leaves_to_program_;
  bool saves_;
};

// What signals have asked for and a step may look at: the one that asks to end, and whether one asks to save.
inline std::atomic<unsigned> signals_asked = 0;
inline constexpr unsigned kEndSignal = 0xFF, kSaveAsked = 0x100;
inline bool signals_ask() noexcept { return signals_asked.load(std::memory_order_relaxed) != 0; }

// The signal that has asked to end, or 0.
inline int interrupt_signal() noexcept {
  return static_cast<int>(signals_asked.load(std::memory_order_relaxed) & kEndSignal);
}
// Where several ranks work together, the signal that they have agreed on, or 0; else -1.
inline std::atomic<int> agreed_signal = -1;
// What the program's part in deciding goes by: with others the agreed signal, alone the one that has come.
inline int heeded_signal() noexcept {
  const int agreed = agreed_signal.load(std::memory_order_relaxed);
  return agreed >= 0 ? agreed : interrupt_signal();
}
// Whether a loop of this thread saves that a loop which begins now is within.
bool is_in_saving_loop() noexcept;
// Whether an evaluation in this thread may have been cut short by a signal.
inline bool may_be_cut_short() noexcept { return heeded_signal() != 0 && !is_in_saving_loop(); }
// Whether a signal has asked to save since this was last called.
inline bool take_save_signal() noexcept { return (signals_asked.fetch_and(~kSaveAsked) & kSaveAsked) != 0; }

}  // namespace giro::detail
