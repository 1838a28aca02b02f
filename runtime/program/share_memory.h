#pragma once

#include <vector>

#include "runtime/program/held_op.h"

namespace giro {
class Arena;
}

namespace giro::detail {

// Lets values take the memory of temporaries that are used up where they are computed, where the op can write over what
// it reads (OpCall::can_write_over). Ops that then have to keep their order are seen to touch the same memory.
void share_memory(std::vector<HeldOp>& ops, const Arena& trace);

}  // namespace giro::detail
