#pragma once

#include <cublasLt.h>

#include <cstdint>

#include <giro/kernels/math_mode.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cuda {

// The row-major product out (M, N) = op(a) op(b) with op(a) (M, K) and op(b) (K, N), which are a and b or their
// transposes, all contiguous. a and b have one dtype, out has that or f32; sums are f32. The epilogue reads or writes
// `bias` (N), which has out's dtype. A batch is `batch` such products, with consecutive out.
struct Matmul {
  Tensor out, a, b;
  bool transpose_a = false, transpose_b = false;
  MathMode math = MathMode::f32;
  bool adds = false;  // to out
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  Tensor bias = {};
  std::int64_t batch = 1;
  std::int64_t a_stride = 0, b_stride = 0;  // from one product's operand to the next one's; 0: all share one

  std::int64_t rows() const { return out.shape()[-2]; }
  std::int64_t columns() const { return out.shape()[-1]; }
  std::int64_t terms() const { return a.shape()[transpose_a ? -2 : -1]; }
};

// Queues the product; M, N and K are at least 1. Returns false and queues nothing if cuBLASLt has no algorithm for it,
// or if `bias` is not aligned to 16 bytes or has another dtype than out.
bool try_matmul(const Matmul& matmul, const Stream& stream);

// Queues the product without its epilogue, computed by giro's own kernel with sums in f32. For products that cuBLASLt
// declines. Overwrites out.
void tiled_matmul(const Matmul& matmul, const Stream& stream);

}  // namespace giro::cuda
