#pragma once

#include <cstdint>

namespace cuda_on_cpu {

// Decides what CUDA leaves open: which stream runs next, and which of a graph's ready nodes. Seeded by
// GIRO_CUDA_ON_CPU_SEED, 0 by default.
std::uint64_t random_number();

}  // namespace cuda_on_cpu
