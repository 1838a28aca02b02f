#pragma once

#include <giro/kernels/nn/reduce.h>

namespace giro::nn {

// The square root of the sum of squares, f32, or f64 of f64. The squares are f64, so they neither overflow nor
// underflow. The gradient of a norm of 0 is 0. Errors as for sum, by the op's name.
Var norm(const char* op, const Operand& x, const Axes& axes = {});

}  // namespace giro::nn
