#pragma once

#include <cstddef>
#include <vector>

namespace giro::detail {

// A value that a program computes and uses up: it needs its memory from op `first` to op `last`.
struct PlannedBlock {
  std::size_t bytes;
  std::size_t first, last;  // ops, both inclusive
  std::size_t offset = 0;   // where the plan puts it
};

// Gives blocks whose times overlap memory of their own, the largest first, each the lowest place that is free all the
// time it needs it. Returns the bytes of all of them together. Quadratic in the number of blocks.
std::size_t plan_memory(std::vector<PlannedBlock>& blocks);

// What any plan needs: the most that is needed at one time.
std::size_t least_memory(const std::vector<PlannedBlock>& blocks);

}  // namespace giro::detail
