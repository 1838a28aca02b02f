#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/cpu/expression_plan.h"

namespace giro::cpu {

// A value of a plan, by whose number its steps name it.
struct PlannedValue {
  std::size_t size;  // of an element in bytes
  bool of_rows;
  bool for_good;  // nothing else may have its slot
};
struct PlannedConstant {
  int value;
  std::size_t size;
  std::array<std::byte, 8> bytes;
};

// Finds from when to when each value is needed, now that the steps stand, which are computed where they are written,
// and where the others lie in a thread's memory. `reads_from_there(write, value)`: whether the value is what elements
// read in memory that the write writes.
void place_values(Plan& plan, const std::vector<PlannedValue>& values, const std::vector<PlannedConstant>& constants,
                  const std::function<bool(const Plan::Access& write, int value)>& reads_from_there);

}  // namespace giro::cpu
