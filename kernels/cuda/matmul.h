#pragma once

#include <cublasLt.h>

#include <cstdint>

#include <giro/runtime/stream.h>

namespace giro::cuda {

// One product as cuBLASLt sees it: column-major, d (m, n) = op(a) op(b) with op(a) (m, k) and op(b) (k, n),
// each without gaps. A row-major matrix is the transpose of the column-major one in the same memory. f32
// throughout, never TF32. `bias` (m) is what the epilogue reads or writes.
struct Matmul {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  const float *a, *b;
  float* d;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};

// Queues the product, m, n and k at least 1. False, with nothing queued, if cuBLASLt has no algorithm for it, or `bias`
// is not aligned to 16 bytes.
bool try_matmul(const Matmul& matmul, const Stream& stream);

// Queues the product without its epilogue, by a kernel of giro's own: for what cuBLASLt declines.
void tiled_matmul(const Matmul& matmul, const Stream& stream);

}  // namespace giro::cuda
