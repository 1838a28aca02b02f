#pragma once

#include <atomic>

namespace giro::detail {

// While one lives, SIGINT and SIGTERM ask the loops that run to finish their step instead of ending the process; a
// second signal does what it would have done. A signal that the process ignores stays ignored. Scopes may nest, and lie
// in several threads: the outermost restores what was there. One that is not enabled leaves the signals to the program,
// and so do those within it in the same thread, whatever they say: the outermost loop decides.
class InterruptScope {
 public:
  explicit InterruptScope(bool enabled);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  bool enabled_;
  bool leaves_to_program_;
};

// The signal that has asked, or 0.
inline std::atomic<int> interrupt_asked = 0;
inline int interrupt_signal() noexcept { return interrupt_asked.load(std::memory_order_relaxed); }

}  // namespace giro::detail
