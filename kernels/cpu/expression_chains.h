#pragma once

#include <functional>
#include <vector>

#include "kernels/cpu/expression_plan.h"
#include "kernels/cpu/expression_values.h"

namespace giro::cpu {

// Combines the steps of a plan into chains (chain.h). `constants`: the values that are constants.
void form_chains(Plan& plan, const std::vector<int>& constants,
                 const std::function<int(const PlannedValue&)>& new_value);

// Whether a step or a reduction of elements reads the stored value.
bool is_used(const Plan& plan, int value);

}  // namespace giro::cpu
