#pragma once

namespace cuda_on_cpu {

// Makes cuBLASLt and cuDNN decline, as the real ones may for some shapes, so that a test can check how a program
// handles it. Set by the number in GIRO_CUDA_ON_CPU_DECLINE in the environment, or by cuda_on_cpu_decline.

// 1: they decline every product and convolution.
bool declines();
// 2: every convolution has a plan, which fails to run.
bool refuses_to_run();

}  // namespace cuda_on_cpu

// 0 ends it. Tests that also run on a GPU look this up with dlsym.
extern "C" void cuda_on_cpu_decline(int mode);
