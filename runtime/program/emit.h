#pragma once

#include <giro/runtime/program/program.h>
#include <giro/runtime/stream.h>

#include "runtime/program/held_op.h"

namespace giro::detail {

// Queues the work of an op of a program. Errors name the op, and the line of the user's program that made it.
void emit(const OpCall& call, const Program::Node& node, const Stream& stream);

}  // namespace giro::detail
