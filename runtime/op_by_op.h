#pragma once

#include <string>

#include <giro/runtime/step_context.h>
#include <giro/runtime/stream.h>

#include "runtime/op_scope.h"

namespace giro::detail {

// Call in a catch block: rethrows the exception, with the op's name added to an Error that lacks it.
[[noreturn]] void rethrow_from(const std::string& op);

// Whether the environment requests now, by GIRO_BLOCKING=1, that a step runs op by op, and that the host waits after
// each (StepContext). An error of the device is then reported by the op that caused it, not by a later one.
bool wants_op_by_op();
// Waits for `what`, which an error names, unless the stream is recording.
void wait_for(const std::string& what, const Stream& stream);

// Runs a backend's function outside of a program.
template <class F>
void run_op(const char* op, const Stream& stream, F&& function) {
  const bool waits = StepScope::current().is_op_by_op && !OpScope::is_open();
  // Errors of work that is not an op of giro are not attributed to the op.
  if (waits) wait_for(std::string("the program's own work, before ") + op, stream);
  try {
    const OpScope scope(op);
    function();
    if (waits) wait_for(op, stream);
  } catch (...) {
    rethrow_from(op);
  }
}

}  // namespace giro::detail
