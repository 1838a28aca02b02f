#pragma once

#include <giro/runtime/shape.h>

namespace giro {

// Whether an operand's last two axes are swapped. No effect on an operand with one axis.
struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;
  bool operator==(const MatmulOptions&) const = default;
};

// The shape of the product, as in NumPy: (..., M, K) times (..., K, N) gives (..., M, N), where leading axes broadcast.
// An operand of shape (K) has no M or N, and then neither has the product.
// Errors: shape_mismatch for scalars, unequal K, and axes that do not broadcast.
Shape matmul_shape(const Shape& a, const Shape& b, const MatmulOptions& options = {});

}  // namespace giro
