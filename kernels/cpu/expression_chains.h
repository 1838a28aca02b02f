#pragma once

#include <functional>
#include <vector>

#include "kernels/cpu/expression_plan.h"
#include "kernels/cpu/expression_values.h"

namespace giro::cpu {

// Makes chains of the steps of a plan (chain.h). `constants`: the values that are one number.
void form_chains(Plan& plan, const std::vector<int>& constants,
                 const std::function<int(const PlannedValue&)>& new_value);

// Whether a step or a reduction of elements takes the value from where it is stored.
bool is_used(const Plan& plan, int value);

}  // namespace giro::cpu
