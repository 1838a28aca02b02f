#include "tests/cuda_on_cpu/libraries/decline.h"

#include <atomic>
#include <cstdlib>

namespace cuda_on_cpu {
namespace {

std::atomic<Decline>& setting() {
  static std::atomic<Decline> what = [] {
    const char* const variable = std::getenv("GIRO_CUDA_ON_CPU_DECLINE");
    return variable != nullptr ? static_cast<Decline>(std::atoi(variable)) : Decline::nothing;
  }();
  return what;
}

}  // namespace

Decline declined() { return setting(); }

}  // namespace cuda_on_cpu

extern "C" void cuda_on_cpu_decline(cuda_on_cpu::Decline what) { cuda_on_cpu::setting() = what; }
