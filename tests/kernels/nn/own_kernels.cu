#include "tests/kernels/nn/own_kernels.h"

namespace giro::test {
namespace {

constexpr int kThreads = 64;

__device__ std::int64_t index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
unsigned int blocks(std::int64_t n) { return static_cast<unsigned int>((n + kThreads - 1) / kThreads); }

__global__ void bend_kernel(float* y, const float* x, const float* w, std::int64_t n) {
  const std::int64_t i = index();
  if (i < n) y[i] = x[i] * x[i] * w[i];
}

__global__ void bend_dx_kernel(float* dx, const float* dy, const float* x, const float* w, std::int64_t n) {
  const std::int64_t i = index();
  if (i < n) dx[i] = dy[i] * 2 * x[i] * w[i];
}

__global__ void bend_dw_kernel(float* dw, const float* dy, const float* x, std::int64_t n) {
  const std::int64_t i = index();
  if (i < n) dw[i] = dy[i] * x[i] * x[i];
}

}  // namespace

void bend(float* y, const float* x, const float* w, std::int64_t n, cudaStream_t stream) {
  bend_kernel<<<blocks(n), kThreads, 0, stream>>>(y, x, w, n);
}

void bend_dx(float* dx, const float* dy, const float* x, const float* w, std::int64_t n, cudaStream_t stream) {
  bend_dx_kernel<<<blocks(n), kThreads, 0, stream>>>(dx, dy, x, w, n);
}

void bend_dw(float* dw, const float* dy, const float* x, std::int64_t n, cudaStream_t stream) {
  bend_dw_kernel<<<blocks(n), kThreads, 0, stream>>>(dw, dy, x, n);
}

void launch_nothing(cudaStream_t stream) { bend_dw_kernel<<<0, kThreads, 0, stream>>>(nullptr, nullptr, nullptr, 0); }

void wait_for(cudaStream_t stream) {
  (void)cudaStreamSynchronize(stream);
  (void)cudaGetLastError();
}

}  // namespace giro::test
