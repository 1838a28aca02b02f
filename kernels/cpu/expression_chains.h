#pragma once

#include <vector>

#include "kernels/cpu/expression_plan.h"

namespace giro::cpu {

// Makes chains of the steps of a plan that follow one another (chain.h). `constants`: the values that are one number.
void form_chains(Plan& plan, const std::vector<int>& constants);

}  // namespace giro::cpu
