#pragma once

#include <giro/kernels/math_mode.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

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

// out = a b. Row-major; out aliases no input. a and b are both f32, both bf16 or both f16; out has that dtype or f32.
// Sums are computed in f32. If K is 0, the product is 0. Errors: as for matmul_shape; shape_mismatch, dtype_mismatch,
// device_mismatch; device for 16 bits where oneDNN has no such products for the CPU.
void matmul(const Tensor& out, const Tensor& a, const Tensor& b, const MatmulOptions& options, MathMode math,
            const Stream& stream);

}  // namespace giro
