// The CUDA half of own_kernel.cpp.

#include <giro/runtime/tensor.h>

#include <cstdint>
#include <vector>

using giro::Tensor;

namespace {

constexpr float kBeta = 0.1f;  // as in own_kernel.cpp
constexpr int kThreads = 128;

__device__ std::int64_t index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

unsigned int blocks(std::int64_t n) { return static_cast<unsigned int>((n + kThreads - 1) / kThreads); }

__global__ void smooth_l1_kernel(float* losses, const float* predictions, const float* targets, std::int64_t n) {
  const std::int64_t i = index();
  if (i >= n) return;
  const float difference = fabsf(predictions[i] - targets[i]);
  losses[i] = difference < kBeta ? difference * difference / (2 * kBeta) : difference - kBeta / 2;
}

__global__ void smooth_l1_slope_kernel(float* slopes, const float* predictions, const float* targets, std::int64_t n) {
  const std::int64_t i = index();
  if (i < n) slopes[i] = fminf(fmaxf((predictions[i] - targets[i]) / kBeta, -1.0f), 1.0f);
}

}  // namespace

void smooth_l1_cuda(const Tensor& losses, const std::vector<Tensor>& in, cudaStream_t stream) {
  const std::int64_t n = losses.count();
  smooth_l1_kernel<<<blocks(n), kThreads, 0, stream>>>(
      losses.data<float>(), in[0].data<float>(), in[1].data<float>(), n);
}

void smooth_l1_slope_cuda(const Tensor& slopes, const std::vector<Tensor>& in, cudaStream_t stream) {
  const std::int64_t n = slopes.count();
  smooth_l1_slope_kernel<<<blocks(n), kThreads, 0, stream>>>(
      slopes.data<float>(), in[0].data<float>(), in[1].data<float>(), n);
}
