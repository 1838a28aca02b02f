#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/cpu/expression_plan.h"

namespace giro::cpu {

// Makes chains of the steps of a plan (chain.h). `constants`: the values that are one number; `new_value` makes one of
// so many bytes an element, of rows or of elements.
void form_chains(Plan& plan, const std::vector<int>& constants,
                 const std::function<int(std::size_t size, bool of_rows)>& new_value);

}  // namespace giro::cpu
