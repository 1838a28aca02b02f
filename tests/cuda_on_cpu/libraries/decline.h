#pragma once

namespace cuda_on_cpu {

// What cuBLASLt and cuDNN decline, as the real ones may for some shapes. A test can then see what a program does. Set
// by the number in GIRO_CUDA_ON_CPU_DECLINE in the environment, or by cuda_on_cpu_decline.

// 1: every product and convolution that they are asked about.
bool declines();
// 2: every convolution, but only when it is to run.
bool refuses_to_run();

}  // namespace cuda_on_cpu

// 0 ends it. Tests that also run on a GPU look this up with dlsym.
extern "C" void cuda_on_cpu_decline(int mode);
