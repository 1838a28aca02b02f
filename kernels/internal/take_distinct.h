#pragma once

#include <cstddef>
#include <string>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

// take_along_axis for indices that name no element twice, so that the gradient need not sort them.
Var take_distinct(const Var& x, const Var& indices, std::size_t axis);
// take, whose errors name an index out of range as `element`: "embedding: id".
Var take_checked(const std::string& element, const Var& x, const Var& indices, int axis = 0);

}  // namespace giro::nn
