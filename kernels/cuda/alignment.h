#pragma once

#include <cstdint>

namespace giro::cuda {

// No kernel of a library requires more. With this limit, the choice of a plan does not depend on where an allocation
// happens to be.
constexpr std::uint32_t kMostAlignment = 16;

inline std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | kMostAlignment;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

}  // namespace giro::cuda
