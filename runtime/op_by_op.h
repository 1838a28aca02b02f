#pragma once

#include <string>

#include <giro/runtime/stream.h>

#include "runtime/op_scope.h"

namespace giro::detail {

// Call in a catch block: rethrows the exception, with the op's name added to an Error that lacks it.
[[noreturn]] void rethrow_from(const std::string& op);

// With GIRO_BLOCKING=1 in the environment a step runs op by op, and the host waits after each. An error of the device
// is then reported by the op that caused it, not by a later one. While an instance lives, the ops that this thread
// queues outside of recordings wait.
class OpByOp : NotCopied {
 public:
  OpByOp() noexcept : outer_(is_on_) { is_on_ = true; }
  ~OpByOp() { is_on_ = outer_; }

  // Whether the environment requests it now.
  static bool is_wanted();

  // Whether an instance lives in this thread.
  static bool is_on() noexcept { return is_on_; }
  // Waits for `what`, which an error names, unless the stream is recording.
  static void wait(const std::string& what, const Stream& stream);

 private:
  bool outer_;
  static inline constinit thread_local bool is_on_ = false;
};

// Runs a backend's function outside of a program.
template <class F>
void run_op(const char* op, const Stream& stream, F&& function) {
  const bool waits = OpByOp::is_on() && !OpScope::is_open();
  // Errors of work that is not an op of giro are not attributed to the op.
  if (waits) OpByOp::wait(std::string("the program's own work, before ") + op, stream);
  try {
    const OpScope scope(op);
    function();
    if (waits) OpByOp::wait(op, stream);
  } catch (...) {
    rethrow_from(op);
  }
}

}  // namespace giro::detail
