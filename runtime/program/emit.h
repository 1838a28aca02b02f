#pragma once

#include <cstdint>

#include <giro/runtime/program/program.h>
#include <giro/runtime/stream.h>

#include "runtime/program/held_op.h"

namespace giro::detail {

// Queues the work of an op of a program. Errors name the op, and the line of the user's program that made it.
void emit(const OpCall& call, const Program::Node& node, const Stream& stream);

struct GraphOwned;
// Replays a graph of ops only, with a wait after each. `number` is the number of the replay, for errors.
void replay_op_by_op(const GraphOwned& graph, const Stream& stream, std::int64_t number);

}  // namespace giro::detail
