#pragma once

#include <giro/kernels/matmul.h>
#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// The matrix product, as in NumPy: (..., M, K) times (..., K, N) gives (..., M, N), where leading axes broadcast. A
// one-dimensional operand (K) has no M or N, and neither has the product. Transposing through the options costs
// nothing. Different dtypes are converted to the wider one, as in elementwise functions; it must be f32, bf16 or f16.
// Errors: those of giro::matmul; invalid_argument for a number.
Var matmul(const Operand& a, const Operand& b, const MatmulOptions& options = {});

}  // namespace giro::nn
