#pragma once

namespace cuda_on_cpu {

// Whether cuBLASLt and cuDNN decline every product and convolution that they are asked about, as the real ones may for
// a shape: so that a test can see what a program does then. Either GIRO_CUDA_ON_CPU_DECLINE=1 in the environment, or
// cuda_on_cpu_decline.
bool declines();

}  // namespace cuda_on_cpu

// Tests that also run on a GPU look it up with dlsym.
extern "C" void cuda_on_cpu_decline(bool declines);
