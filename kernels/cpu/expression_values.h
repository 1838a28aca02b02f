#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/cpu/expression_plan.h"

namespace giro::cpu {

// The values of a plan that is being made. Steps refer to them by their index.
struct PlannedValues {
  struct Value {
    std::size_t size;  // of an element in bytes
    bool of_rows;
    bool is_permanent;  // its slot is never reused
    int read = -1;      // of the expression, if the value is what it reads per element
  };
  struct Constant {
    int value;
    std::size_t size;
    alignas(8) std::array<std::byte, 8> bytes;
  };

  int add(const Value& value) {
    values.push_back(value);
    return static_cast<int>(values.size()) - 1;
  }

  std::vector<Value> values;
  std::vector<Constant> constants;
};

// Combines the steps of a plan into chains (chain.h).
void form_chains(Plan& plan, PlannedValues& values);

// Whether a step or a reduction of elements reads the stored value.
bool is_used(const Plan& plan, int value);

// Called once the steps are final: finds the lifetime of each value, which values are computed directly where they are
// written, and the slots of the others in a thread's memory.
void place_values(Plan& plan, const PlannedValues& values, const expr::Expression& expression);

}  // namespace giro::cpu
