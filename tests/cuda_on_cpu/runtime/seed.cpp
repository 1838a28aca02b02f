#include "tests/cuda_on_cpu/runtime/seed.h"

#include <cstdlib>
#include <random>

namespace cuda_on_cpu {

std::uint64_t random_number() {
  static std::mt19937_64 engine([] {
    const char* const seed = std::getenv("GIRO_CUDA_ON_CPU_SEED");
    return seed != nullptr ? std::strtoull(seed, nullptr, 10) : 0;
  }());
  return engine();
}

}  // namespace cuda_on_cpu
