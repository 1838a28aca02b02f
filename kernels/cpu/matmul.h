#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cpu {

// An operand that is stored as it is, or as its transpose.
struct Factor {
  const Tensor& matrix;
  bool is_transposed = false;
};

// Queues out = a b + bias: out (M, N), a (M, K), b (K, N), the bias (N) or empty. Or a batch of products without a
// bias: out (B, M, N); a and b have B matrices or one.
void matmul(const Tensor& out, const Factor& a, const Factor& b, const Tensor& bias, const Stream& stream);

}  // namespace giro::cpu
