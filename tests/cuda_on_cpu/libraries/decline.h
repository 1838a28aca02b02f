#pragma once

namespace cuda_on_cpu {

// What makes cuBLASLt and cuDNN decline, as the real ones may for some shapes, so that a test can check how a program
// handles it. Set by its number in GIRO_CUDA_ON_CPU_DECLINE in the environment, or by cuda_on_cpu_decline.
enum class Decline {
  nothing,
  everything,  // each product and convolution
  to_run_any,  // each convolution has a plan, which fails to run
  // The plans of Engine::workspace fail in other ways than by not being supported:
  to_build,
  to_build_for_memory,
  to_tell_workspace,
  to_run,
  to_run_for_memory,
};
Decline declined();

}  // namespace cuda_on_cpu

// Tests that also run on a GPU look this up with dlsym.
extern "C" void cuda_on_cpu_decline(cuda_on_cpu::Decline what);
