#pragma once

#include <cstdint>

namespace giro::cuda {

// No library kernel requires more. The limit makes the choice of a plan independent of where an allocation lies.
constexpr std::uint32_t kMaxAlignment = 16;

inline std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | kMaxAlignment;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

}  // namespace giro::cuda
