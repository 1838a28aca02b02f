#pragma once

#include <cublasLt.h>

#include <cstdint>

#include <giro/kernels/math.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cuda {

// One product as cuBLASLt sees it: column-major, d (m, n) = op(a) op(b) with op(a) (m, k) and op(b) (k, n),
// each without gaps. A row-major matrix is the transpose of the column-major one in the same memory; the tensors are
// looked at for their memory and dtypes alone. a and b are of one dtype, d of that or f32; sums are f32. `bias` (m), of
// d's dtype, is what the epilogue reads or writes.
struct Matmul {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  Tensor a, b, d;
  Math math = Math::f32;
  bool adds = false;  // to what d holds
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  Tensor bias = {};
};

// Queues the product, m, n and k at least 1. False, with nothing queued, if cuBLASLt has no algorithm for it, or `bias`
// is not aligned to 16 bytes or of another dtype than d.
bool try_matmul(const Matmul& matmul, const Stream& stream);

// Queues the product, summed in f32, without its epilogue, by a kernel of giro's own: for what cuBLASLt declines. It
// replaces what d holds.
void tiled_matmul(const Matmul& matmul, const Stream& stream);

}  // namespace giro::cuda
