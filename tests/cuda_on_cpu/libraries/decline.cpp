#include "tests/cuda_on_cpu/libraries/decline.h"

#include <atomic>
#include <cstdlib>

namespace cuda_on_cpu {
namespace {

std::atomic<int>& setting() {
  static std::atomic<int> mode = [] {
    const char* const variable = std::getenv("GIRO_CUDA_ON_CPU_DECLINE");
    return variable != nullptr ? std::atoi(variable) : 0;
  }();
  return mode;
}

}  // namespace

bool declines() { return setting() == 1; }
bool refuses_to_run() { return setting() == 2; }
Failure failure() {
  const int mode = setting();
  return mode >= 3 && mode <= 7 ? static_cast<Failure>(mode - 2) : Failure::none;
}

}  // namespace cuda_on_cpu

extern "C" void cuda_on_cpu_decline(int mode) { cuda_on_cpu::setting() = mode; }
