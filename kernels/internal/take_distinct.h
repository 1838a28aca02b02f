#pragma once

#include <cstddef>

#include <giro/kernels/nn/var.h>

namespace giro::nn {

// take_along_axis for indices that name no element twice, so that the gradient need not sort them.
Var take_distinct(const Var& x, const Var& indices, std::size_t axis);

}  // namespace giro::nn
