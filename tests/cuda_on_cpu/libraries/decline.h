#pragma once

namespace cuda_on_cpu {

// Makes cuBLASLt and cuDNN decline, as the real ones may for some shapes, so that a test can check how a program
// handles it. Set by the number in GIRO_CUDA_ON_CPU_DECLINE in the environment, or by cuda_on_cpu_decline.

// 1: they decline every product and convolution.
bool declines();
// 2: every convolution has a plan, which fails to run.
bool refuses_to_run();
// 3 to 7: the plans of Engine::workspace fail in other ways than by not being supported.
enum class Failure { none, to_build, to_build_for_memory, to_tell_its_workspace, to_run, to_run_for_memory };
Failure failure();

}  // namespace cuda_on_cpu

// 0 ends it. Tests that also run on a GPU look this up with dlsym.
extern "C" void cuda_on_cpu_decline(int mode);
