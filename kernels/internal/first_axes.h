#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <giro/kernels/nn/var.h>

#include "runtime/internal/throw_error.h"

namespace giro::nn {

// A mask or weights of a shape's first axes, with axes of size 1 for the others, so that it broadcasts to the shape.
inline Var with_first_axes(const char* what, const Var& x, const Shape& shape) {
  const Shape& first = x.shape();
  if (first.rank() > shape.rank() || !std::equal(first.begin(), first.end(), shape.begin())) {
    throw_error(ErrorCode::shape_mismatch, "{} is {}, values is {}; expected the first axes of values", what,
                to_string(first), to_string(shape));
  }
  std::vector<std::int64_t> sizes(first.begin(), first.end());
  sizes.resize(shape.rank(), 1);
  return x.reshape(Shape(sizes));
}

}  // namespace giro::nn
