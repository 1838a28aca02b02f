#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/cpu/expression_plan.h"

namespace giro::cpu {

// A value of a plan. Steps refer to it by its index.
struct PlannedValue {
  std::size_t size;  // of an element in bytes
  bool of_rows;
  bool is_permanent;  // its slot is never reused
};
struct PlannedConstant {
  int value;
  std::size_t size;
  std::array<std::byte, 8> bytes;
};

// Called once the steps are final: finds the lifetime of each value, which values are computed directly where they are
// written, and the slots of the others in a thread's memory. `reads_from_there(write, value)`: whether the value is
// read, per element, from memory that the write writes.
void place_values(Plan& plan, const std::vector<PlannedValue>& values, const std::vector<PlannedConstant>& constants,
                  const std::function<bool(const Plan::Access& write, int value)>& reads_from_there);

}  // namespace giro::cpu
