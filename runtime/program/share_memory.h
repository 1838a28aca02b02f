#pragma once

#include <vector>

#include "runtime/program/held_op.h"

namespace giro {
class Arena;
}

namespace giro::detail {

// Lets a result take the memory of a temporary that is last used by the same op, if the op can write over what it reads
// (OpCall::can_write_over). Ops that must then keep their order touch the same memory, so their order is kept. With
// branches this is done only if no other op reads the temporary: such an op could run concurrently.
void share_memory(std::vector<HeldOp>& ops, const Arena& trace, bool has_branches);

}  // namespace giro::detail
