#pragma once

namespace cuda_on_cpu {

// Whether cuBLASLt and cuDNN decline every product and convolution that they are asked about, as the real ones may for
// some shapes. A test can then see what a program does. Set by GIRO_CUDA_ON_CPU_DECLINE=1 in the environment or by
// cuda_on_cpu_decline.
bool declines();

}  // namespace cuda_on_cpu

// Tests that also run on a GPU look this up with dlsym.
extern "C" void cuda_on_cpu_decline(bool declines);
