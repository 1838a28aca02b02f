#pragma once

#include <giro/kernels/nn/var.h>

#include "runtime/held_values.h"

namespace giro::nn {

// A constant in new memory, for an op to write.
Var uninitialized(DType dtype, const Shape& shape, const Stream& stream);

// Writes a value to a leaf of its shape and dtype. Whoever holds what was there keeps it, `value` too.
inline void store(const Tensor& leaf, const Var& value) {
  if (value.value().place() == leaf.place()) return;
  giro::detail::before_write(leaf, value.stream());
  copy(leaf, value.value(), value.stream());
}

}  // namespace giro::nn
