#pragma once

#include <cublasLt.h>

#include <cstdint>

#include <giro/kernels/math_mode.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cuda {

// A product as cuBLASLt sees it: column-major, d (m, n) = op(a) op(b) with op(a) (m, k) and op(b) (k, n), all
// contiguous. A row-major matrix is the transpose of the column-major one in the same memory. Only the memory and the
// dtype of the tensors are used. a and b have one dtype, d has that or f32; sums are f32. The epilogue reads or writes
// `bias` (m), which has d's dtype. A batch is `batch` such products, with consecutive d.
struct Matmul {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  Tensor a, b, d;
  MathMode math = MathMode::f32;
  bool adds = false;  // to d
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  Tensor bias = {};
  std::int64_t batch = 1;
  std::int64_t a_stride = 0, b_stride = 0;  // from one product's operand to the next one's; 0: all share one
};

// The row-major out (M, N) = op(a) op(b) with op(a) (M, K) and op(b) (K, N), which are a and b or their transposes.
Matmul row_major(const Tensor& out, const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                 MathMode math);

// Queues the product; m, n and k are at least 1. Returns false and queues nothing if cuBLASLt has no algorithm for it,
// or if `bias` is not aligned to 16 bytes or has another dtype than d.
bool try_matmul(const Matmul& matmul, const Stream& stream);

// Queues the product without its epilogue, computed by giro's own kernel with sums in f32. For products that cuBLASLt
// declines. Overwrites d.
void tiled_matmul(const Matmul& matmul, const Stream& stream);

}  // namespace giro::cuda
