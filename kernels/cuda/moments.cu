#include "kernels/functors/moments.h"

#include <cub/block/block_reduce.cuh>

#include <cstdint>

#include "kernels/cuda/for_each.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/internal/backends.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

constexpr int kThreads = 512;

// One block, as a metric has mostly as many values as a batch has rows.
__global__ void moments_kernel(functors::MomentSums out, const float* x, const bool* mask, std::int64_t count,
                               std::int64_t inner) {
  double sum = 0, squares = 0, counting = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    if (mask != nullptr && !mask[i / inner]) continue;
    const double value = x[i];
    sum += value;
    squares += value * value;
    counting += 1;
  }
  using Reduce = cub::BlockReduce<double, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  sum = Reduce(storage).Sum(sum);
  __syncthreads();
  squares = Reduce(storage).Sum(squares);
  __syncthreads();
  counting = Reduce(storage).Sum(counting);
  if (threadIdx.x == 0) out.store(sum, squares, counting);
}

}  // namespace

void moments(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& values, const Tensor& mask,
             const Stream& stream) {
  const std::int64_t n = values.count();
  moments_kernel<<<1, kThreads, 0, handle(stream)>>>(
      {mean.data<double>(), deviation.data<double>(), count.data<double>()}, values.data<float>(),
      mask ? mask.data<bool>() : nullptr, n, !mask || mask.count() == 0 ? 1 : n / mask.count());
  check_launch("moments_kernel");
}

void moment_sums(const Tensor& sums, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                 const Stream& stream) {
  functors::moment_sums(ForEach{stream}, sums, mean, deviation, count);
}

void moments_of_sums(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& sums,
                     double factor, const Stream& stream) {
  functors::moments_of_sums(ForEach{stream}, mean, deviation, count, sums, factor);
}

}  // namespace giro::cuda
