#pragma once

#include <string>
#include <vector>

#include <giro/runtime/state.h>

namespace giro::detail {

// The path of the first leaf that contains NaN or infinity, or "". The leaves are in host memory.
std::string find_not_finite(const std::vector<Leaf>& leaves);

}  // namespace giro::detail
