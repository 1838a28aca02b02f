#include <giro/kernels/reduce.h>

#include <cub/block/block_reduce.cuh>

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sum_rows.cuh"
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
