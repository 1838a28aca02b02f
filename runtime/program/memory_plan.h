#pragma once

#include <cstddef>
#include <vector>

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

}  // namespace giro::detail
