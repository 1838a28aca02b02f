#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace cuda_on_cpu::test {

// y[i] += a x[i], in blocks of 128.
void axpy(float* y, const float* x, float a, int n, cudaStream_t stream);

// ++*y, and sets the condition to whether that is still less than `most`.
void count(float* y, float most, cudaGraphConditionalHandle handle, cudaStream_t stream);

// y[i] = value, one block of n threads with that much dynamic shared memory.
void set(float* y, float value, unsigned int n, std::size_t shared, cudaStream_t stream);

}  // namespace cuda_on_cpu::test
