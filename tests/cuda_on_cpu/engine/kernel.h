#pragma once

#include <cstddef>

#include "tests/cuda_on_cpu/engine/translated.h"

namespace giro::simt {

// The emulated device has an A100's limits (compute capability 8.0).
struct Limits {
  static constexpr unsigned int kThreads = 1024, kBlockZ = 64, kWarp = 32;
  static constexpr unsigned int kGridX = 0x7fffffff, kGridYZ = 65535;
  static constexpr std::size_t kSharedBytes = 48 << 10, kSharedBytesOptIn = 163 << 10;
};

}  // namespace giro::simt
