#include <giro/kernels/reduce.h>

#include <cub/block/block_reduce.cuh>

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/internal/backends.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

// Every reduction takes two passes at most, and who adds what to what depends on the shape alone.
namespace giro::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kPerBlock = 16 * kThreads;  // elements that are worth a block
constexpr std::int64_t kMostBlocks = 1024;

struct Sum {
  static constexpr float kNeutral = 0.0f;
  __device__ float of(float x) const { return x; }
  __device__ float operator()(float a, float b) const { return a + b; }
};

struct SumOfSquares : Sum {
  __device__ float of(float x) const { return x * x; }
};

struct Max {
  static constexpr float kNeutral = -INFINITY;
  __device__ float of(float x) const { return x; }
  __device__ float operator()(float a, float b) const { return a > b || isnan(a) ? a : b; }
};

// out[block] = what the block's share of x comes to, divided by `divisor`.
template <class Op>
__global__ void reduce_kernel(float* out, const float* x, std::int64_t count, float divisor, Op op) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  float result = Op::kNeutral;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    result = op(result, op.of(x[i]));
  }
  using Reduce = cub::BlockReduce<float, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  result = Reduce(storage).Reduce(result, op);
  if (threadIdx.x == 0) out[blockIdx.x] = result / divisor;
}

// `first` turns elements into partial results, `then` joins those.
template <class First, class Then>
void reduce(const Tensor& out, const Tensor& x, float divisor, First first, Then then, const Stream& stream) {
  const unsigned int blocks = blocks_for(x.count(), kPerBlock, kMostBlocks);
  if (blocks == 1) {
    reduce_kernel<<<1, kThreads, 0, handle(stream)>>>(out.data<float>(), x.data<float>(), x.count(), divisor, first);
    check_launch("reduce_kernel");
    return;
  }
  const Buffer buffer = stream.allocate(blocks * sizeof(float));
  float* partial = static_cast<float*>(buffer.data());
  reduce_kernel<<<blocks, kThreads, 0, handle(stream)>>>(partial, x.data<float>(), x.count(), 1.0f, first);
  check_launch("reduce_kernel");
  reduce_kernel<<<1, kThreads, 0, handle(stream)>>>(out.data<float>(), partial, blocks, divisor, then);
  check_launch("reduce_kernel");
}

constexpr int kTileColumns = 32;
constexpr int kTileRows = 16;
constexpr std::int64_t kRowsPerSplit = 32 * kTileRows;
constexpr std::int64_t kMostSplits = 256;

// A block adds up every gridDim.y-th tile of 16 rows in 32 columns: out[split, c].
__global__ void sum_rows_kernel(float* out, const float* x, std::int64_t rows, std::int64_t columns) {
  __shared__ float tile[kTileRows][kTileColumns];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * kTileRows;
  float sum = 0.0f;
  if (column < columns) {
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTileRows + threadIdx.y; row < rows;
         row += stride) {
      sum += x[row * columns + column];
    }
  }
  tile[threadIdx.y][threadIdx.x] = sum;
  for (unsigned int half = kTileRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) tile[threadIdx.y][threadIdx.x] += tile[threadIdx.y + half][threadIdx.x];
  }
  if (threadIdx.y == 0 && column < columns) out[blockIdx.y * columns + column] = tile[0][threadIdx.x];
}

void launch_sum_rows(float* out, const float* x, std::int64_t rows, std::int64_t columns, unsigned int splits,
                     const Stream& stream) {
  const dim3 grid(blocks_for(columns, kTileColumns), splits), block(kTileColumns, kTileRows);
  sum_rows_kernel<<<grid, block, 0, handle(stream)>>>(out, x, rows, columns);
  check_launch("sum_rows_kernel");
}

}  // namespace

void sum(const Tensor& out, const Tensor& x, const Stream& stream) { reduce(out, x, 1.0f, Sum{}, Sum{}, stream); }

void mean(const Tensor& out, const Tensor& x, const Stream& stream) {
  reduce(out, x, static_cast<float>(x.count()), Sum{}, Sum{}, stream);
}

void max(const Tensor& out, const Tensor& x, const Stream& stream) { reduce(out, x, 1.0f, Max{}, Max{}, stream); }

void sum_of_squares(const Tensor& out, const Tensor& x, const Stream& stream) {
  reduce(out, x, 1.0f, SumOfSquares{}, Sum{}, stream);
}

void sum_rows(const Tensor& out, const Tensor& x, const Stream& stream) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  if (columns == 0) return;
  const unsigned int splits = blocks_for(rows, kRowsPerSplit, kMostSplits);
  if (splits == 1) return launch_sum_rows(out.data<float>(), x.data<float>(), rows, columns, 1, stream);
  const Buffer buffer = stream.allocate(splits * static_cast<std::size_t>(columns) * sizeof(float));
  float* partial = static_cast<float*>(buffer.data());
  launch_sum_rows(partial, x.data<float>(), rows, columns, splits, stream);
  launch_sum_rows(out.data<float>(), partial, splits, columns, 1, stream);
}

}  // namespace giro::cuda
