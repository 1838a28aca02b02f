#pragma once

#include <cstdint>

#include <giro/runtime/host_device.h>

namespace giro::host_device {

// The digest's term for the word at a position.
GIRO_HOST_DEVICE inline std::uint64_t digest_term(std::uint64_t word, std::int64_t position) {
  std::uint64_t z = word + (static_cast<std::uint64_t>(position) + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace giro::host_device
