#pragma once

#include <cstddef>
#include <string>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

// take_along_axis for indices without repeats, so that the gradient need not sort them.
Var take_distinct(const Var& x, const Var& indices, std::size_t axis);
// take, but an error for an index out of range calls it `element`, such as "embedding: id".
Var take_checked(const std::string& element, const Var& x, const Var& indices, int axis = 0);

}  // namespace giro::nn
