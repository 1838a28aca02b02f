#include "tests/cuda_on_cpu/libraries/decline.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace cuda_on_cpu {
namespace {

std::atomic<bool>& setting() {
  static std::atomic<bool> declines = [] {
    const char* const variable = std::getenv("GIRO_CUDA_ON_CPU_DECLINE");
    return variable != nullptr && std::string_view(variable) == "1";
  }();
  return declines;
}

}  // namespace

bool declines() { return setting(); }

}  // namespace cuda_on_cpu

extern "C" void cuda_on_cpu_decline(bool declines) { cuda_on_cpu::setting() = declines; }
