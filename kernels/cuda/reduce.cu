#include <giro/kernels/reduce.h>

#include <cub/block/block_reduce.cuh>

#include <cstdint>

#include "kernels/cuda/last_block.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sum_rows.cuh"
#include "kernels/internal/backends.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

// Every reduction is one kernel, and who adds what to what depends on the shape alone.
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

// For a whole block: what its share of x comes to, of `blocks` equal ones; in thread 0.
template <class Op>
__device__ float reduce_share(const float* x, std::int64_t count, unsigned int block, unsigned int blocks, Op op) {
  const std::int64_t stride = static_cast<std::int64_t>(blocks) * kThreads;
  float result = Op::kNeutral;
  for (std::int64_t i = static_cast<std::int64_t>(block) * kThreads + threadIdx.x; i < count; i += stride) {
    result = op(result, op.of(x[i]));
  }
  using Reduce = cub::BlockReduce<float, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  return Reduce(storage).Reduce(result, op);
}

// `first` turns elements into one partial result a block; the last block joins those by `then`, and divides.
template <class First, class Then>
__global__ void reduce_kernel(float* out, float* partial, unsigned int* arrivals, const float* x, std::int64_t count,
                              float divisor, First first, Then then) {
  float result = reduce_share(x, count, blockIdx.x, gridDim.x, first);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) partial[blockIdx.x] = result;
    if (!is_last_block(arrivals, gridDim.x)) return;
    result = reduce_share(partial, gridDim.x, 0, 1, then);
  }
  if (threadIdx.x == 0) *out = result / divisor;
}

template <class First, class Then>
void reduce(const Tensor& out, const Tensor& x, float divisor, First first, Then then, const Stream& stream) {
  const unsigned int blocks = blocks_for(x.count(), kPerBlock, kMostBlocks);
  const Buffer partial = blocks > 1 ? stream.allocate(blocks * sizeof(float)) : Buffer();
  reduce_kernel<<<blocks, kThreads, 0, handle(stream)>>>(out.data<float>(), static_cast<float*>(partial.data()),
                                                         cuda_stream(stream).arrivals(), x.data<float>(), x.count(),
                                                         divisor, first, then);
  check_launch("reduce_kernel");
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
  functors::with_storage(x.dtype(), [&]<class T>(functors::Type<T>) {
    sum_rows_of(functors::Output(out), rows, columns, Elements<T>{x.data<T>()}, stream);
  });
}

}  // namespace giro::cuda
