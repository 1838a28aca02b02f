#pragma once

#include <cstddef>
#include <vector>

#include "runtime/program/held_op.h"
#include "runtime/program/memory_plan.h"

namespace giro {
class Arena;
}

namespace giro::detail {

// The intermediate values of a program: the blocks of its trace that are no longer held.
struct Temporaries {
  Temporaries(const std::vector<HeldOp>& ops, const Arena& trace);

  std::vector<const char*> addresses;           // in the trace
  std::vector<PlannedBlock> blocks;             // each needed from the first op that reads or writes it to the last
  std::vector<std::vector<std::size_t>> of_op;  // the blocks that an op reads or writes
};

}  // namespace giro::detail
