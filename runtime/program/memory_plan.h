#pragma once

#include <cstddef>
#include <vector>

#include "runtime/program/held_op.h"

namespace giro::detail {

// An intermediate value of a program: it needs its memory from op `first` to op `last`.
struct PlannedBlock {
  std::size_t bytes;
  std::size_t first, last;  // ops, both inclusive
  std::size_t offset = 0;   // where the plan puts it
};

// Places blocks so that those with overlapping lifetimes share no memory: the largest first, each at the lowest offset
// that is free for its whole lifetime. Returns the total bytes. Quadratic in the number of blocks.
std::size_t plan_memory(std::vector<PlannedBlock>& blocks);

// The minimum for any plan: the most memory needed at one time.
std::size_t min_memory(const std::vector<PlannedBlock>& blocks);

// The intermediate values of a program: the blocks of its trace that are no longer held.
struct Temporaries {
  Temporaries(const std::vector<HeldOp>& ops, const Arena& trace);

  std::vector<const char*> addresses;           // in the trace
  std::vector<PlannedBlock> blocks;             // each needed from the first op that reads or writes it to the last
  std::vector<std::vector<std::size_t>> of_op;  // the blocks that an op reads or writes
};

}  // namespace giro::detail
