#pragma once

#include <cstdint>
#include <cstring>

#include <giro/runtime/host_device.h>

namespace giro {

namespace detail {

GIRO_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
GIRO_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace detail

// 16-bit storage formats. Arithmetic is done in float; conversion from float rounds to nearest even and keeps NaN a
// NaN. Conversions have no branches, so that loops of them vectorize.

// bfloat16: the upper half of an IEEE binary32.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  GIRO_HOST_DEVICE BFloat16(float value) {
    const std::uint32_t u = detail::bits_of(value);
    const std::uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
  }
  GIRO_HOST_DEVICE operator float() const { return detail::float_of(static_cast<std::uint32_t>(bits) << 16); }
};

// IEEE binary16.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  GIRO_HOST_DEVICE Float16(float value) {
    const std::uint32_t u = detail::bits_of(value), magnitude = u & 0x7fffffffu;
    const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    // An ulp of 0.5f is the smallest binary16.
    const std::uint32_t tiny = detail::bits_of(detail::float_of(magnitude) + 0.5f) - detail::bits_of(0.5f);
    const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const std::uint32_t half = magnitude < 0x38800000u ? tiny : magnitude < 0x477ff000u ? normal : special;
    bits = static_cast<std::uint16_t>((u >> 16 & 0x8000u) | half);
  }
  GIRO_HOST_DEVICE operator float() const {
#ifdef __CUDA_ARCH__
    float converted;
    asm("cvt.f32.f16 %0, %1;" : "=f"(converted) : "h"(bits));
    return converted;
#else
    const std::uint32_t magnitude = bits & 0x7fffu;
    const float normal = detail::float_of((magnitude << 13) + (112u << 23));
    const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
    const float special = detail::float_of((magnitude << 13) | 0x7f800000u);
    const float value = magnitude < 0x400u ? tiny : magnitude < 0x7c00u ? normal : special;
    return detail::float_of(detail::bits_of(value) | (bits & 0x8000u) << 16);
#endif
  }
};

}  // namespace giro
