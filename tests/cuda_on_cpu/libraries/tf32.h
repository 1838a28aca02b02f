#pragma once

#include <bit>
#include <cstdint>

namespace cuda_on_cpu {

// The value of an f32 as tensor cores see it in TF32: with ten bits of mantissa.
inline double to_tf32(double value) {
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  bits = (bits + 0x1000u) & ~0x1fffu;
  return value == value ? static_cast<double>(std::bit_cast<float>(bits)) : value;
}

}  // namespace cuda_on_cpu
