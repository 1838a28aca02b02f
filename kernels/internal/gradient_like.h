#pragma once

#include <vector>

#include <giro/kernels/nn/var.h>

#include "runtime/internal/throw_error.h"

namespace giro::nn {

// The gradient of a backward kernel's result: throws, as there is none.
inline Gradient once_differentiable(const char* op) {
  return [op](const Var&, const Var&, const std::vector<Var>&) -> Gradients {
    throw_error(ErrorCode::unsupported, "{}: its gradient cannot be differentiated again", op);
  };
}

// An uninitialized gradient of the loss with respect to `input`.
inline Var gradient_like(const char* op, const Var& input, DType dtype, const std::vector<Var>& from) {
  return Var::computed(dtype, input.shape(), from, once_differentiable(op));
}

}  // namespace giro::nn
