#include "tests/cuda_on_cpu/runtime_test/kernels.h"

namespace cuda_on_cpu::test {
namespace {

__global__ void axpy_kernel(float* y, const float* x, float a, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] += a * x[i];
}

__global__ void count_kernel(float* y, float most, cudaGraphConditionalHandle handle) {
  *y += 1;
  cudaGraphSetConditional(handle, *y < most);
}

__global__ void set_kernel(float* y, float value) { y[threadIdx.x] = value; }

}  // namespace

void axpy(float* y, const float* x, float a, int n, cudaStream_t stream) {
  axpy_kernel<<<(n + 127) / 128, 128, 0, stream>>>(y, x, a, n);
}

void count(float* y, float most, cudaGraphConditionalHandle handle, cudaStream_t stream) {
  count_kernel<<<1, 1, 0, stream>>>(y, most, handle);
}

void set(float* y, float value, unsigned int n, std::size_t shared, cudaStream_t stream) {
  set_kernel<<<1, n, shared, stream>>>(y, value);
}

}  // namespace cuda_on_cpu::test
