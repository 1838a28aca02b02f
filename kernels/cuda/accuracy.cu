#include <giro/kernels/accuracy.h>

#include <cub/block/block_reduce.cuh>

#include <cstdint>

#include "kernels/cuda/is_correct.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/functors/dtype_dispatch.h"
#include "kernels/internal/backends.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr std::int64_t kRowsPerBlock = 8 * kWarps;

// Counts the correct rows of each block; a lone block writes the share itself.
template <class Label>
__global__ void accuracy_kernel(float* out, int* block_counts, const float* logits, const Label* labels,
                                std::int64_t rows, std::int64_t columns) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock;
  const std::int64_t end = begin + kRowsPerBlock < rows ? begin + kRowsPerBlock : rows;
  int correct = 0;
  for (std::int64_t row = begin + warp; row < end; row += kWarps) {
    const bool hit = is_correct(logits + row * columns, columns, static_cast<std::int64_t>(labels[row]), lane);
    correct += lane == 0 && hit;
  }
  using Reduce = cub::BlockReduce<int, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const int total = Reduce(storage).Sum(correct);
  if (threadIdx.x == 0) {
    if (gridDim.x == 1) {
      out[0] = static_cast<float>(total) / static_cast<float>(rows);
    } else {
      block_counts[blockIdx.x] = total;
    }
  }
}

__global__ void accuracy_of_blocks_kernel(float* out, const int* block_counts, std::int64_t blocks, std::int64_t rows) {
  long long correct = 0;
  for (std::int64_t b = threadIdx.x; b < blocks; b += kThreads) correct += block_counts[b];
  using Reduce = cub::BlockReduce<long long, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const long long total = Reduce(storage).Sum(correct);
  if (threadIdx.x == 0) out[0] = static_cast<float>(static_cast<double>(total) / static_cast<double>(rows));
}

// A warp a row.
template <class Label>
__global__ void correct_kernel(float* out, const float* logits, const Label* labels, std::int64_t rows,
                               std::int64_t columns) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const bool hit = is_correct(logits + row * columns, columns, static_cast<std::int64_t>(labels[row]), lane);
  if (lane == 0) out[row] = hit ? 1.0f : 0.0f;
}

}  // namespace

void accuracy(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  const std::int64_t rows = logits.shape()[0], columns = logits.shape()[1];
  const unsigned int blocks = blocks_for(rows, kRowsPerBlock);
  const Buffer counts = blocks > 1 ? stream.allocate(blocks * sizeof(int)) : Buffer();
  int* block_counts = static_cast<int*>(counts.data());
  functors::with_integer(labels.dtype(), [&]<class Label>(functors::Type<Label>) {
    accuracy_kernel<<<blocks, kThreads, 0, handle(stream)>>>(out.data<float>(), block_counts, logits.data<float>(),
                                                             labels.data<Label>(), rows, columns);
    check_launch("accuracy_kernel");
  });
  if (blocks > 1) {
    accuracy_of_blocks_kernel<<<1, kThreads, 0, handle(stream)>>>(out.data<float>(), block_counts, blocks, rows);
    check_launch("accuracy_of_blocks_kernel");
  }
}

void correct(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  const std::int64_t rows = logits.shape()[0], columns = logits.shape()[1];
  functors::with_integer(labels.dtype(), [&]<class Label>(functors::Type<Label>) {
    correct_kernel<<<blocks_for(rows, kWarps), kThreads, 0, handle(stream)>>>(out.data<float>(), logits.data<float>(),
                                                                              labels.data<Label>(), rows, columns);
    check_launch("correct_kernel");
  });
}

}  // namespace giro::cuda
