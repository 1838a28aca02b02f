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
class OpByOp {
 public:
  OpByOp() noexcept : outer_(is_on_) { is_on_ = true; }
  ~OpByOp() { is_on_ = outer_; }
  OpByOp(const OpByOp&) = delete;
  OpByOp& operator=(const OpByOp&) = delete;

  // Whether the environment requests it now.
  static bool is_wanted();

  // Waits for work that is not an op of giro, so that its errors are not attributed to the op, and then for the op.
  static void before(const std::string& op, const Stream& stream) {
    if (is_on_) [[unlikely]]
      wait("the program's own work, before " + op, stream);
  }
  static void after(const std::string& op, const Stream& stream) {
    if (is_on_) [[unlikely]]
      wait(op, stream);
  }

 private:
  static void wait(const std::string& what, const Stream& stream);

  bool outer_;
  static inline constinit thread_local bool is_on_ = false;
};

// Runs a backend's function outside of a program.
template <class F>
void run_op(const char* op, const Stream& stream, F&& function) {
  const bool is_part_of_another = OpScope::is_open();
  if (!is_part_of_another) OpByOp::before(op, stream);
  try {
    const OpScope scope(op);
    function();
    if (!is_part_of_another) OpByOp::after(op, stream);
  } catch (...) {
    rethrow_from(op);
  }
}

}  // namespace giro::detail
