#pragma once

#include <signal.h>

#include <giro/runtime/not_copied.h>

namespace giro::cpu {

// During its lifetime, this thread takes no signal: one waits, or another thread takes it. For code that keeps another
// address than the stack's in the stack pointer, as oneDNN's products of f32 do: the kernel would write a handler's
// frame there, over whatever the heap holds. Only what the code itself raises, such as a fault, is still taken. One
// made with false does nothing; the others take half a microsecond.
class HoldSignals : detail::NotCopied {
 public:
  explicit HoldSignals(bool holds = true) : holds_(holds) {
    if (!holds_) return;
    static const sigset_t held = [] {
      sigset_t signals;
      sigfillset(&signals);
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&signals, fault);
      return signals;
    }();
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~HoldSignals() {
    if (holds_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  const bool holds_;
  sigset_t before_;
};

}  // namespace giro::cpu
