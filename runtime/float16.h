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
// NaN.

// bfloat16: the upper half of an IEEE binary32.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  GIRO_HOST_DEVICE BFloat16(float value) {
    const std::uint32_t u = detail::bits_of(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  GIRO_HOST_DEVICE operator float() const { return detail::float_of(static_cast<std::uint32_t>(bits) << 16); }
};

// IEEE binary16.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  GIRO_HOST_DEVICE Float16(float value) {
    const std::uint32_t u = detail::bits_of(value);
    const std::uint32_t magnitude = u & 0x7fffffffu;
    std::uint32_t half;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
      half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // normal in binary16
      const std::uint32_t rebased = magnitude - 0x38000000u;
      half = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
    } else {  // subnormal in binary16: a sum with 0.5 rounds to its unit
      half = detail::bits_of(detail::float_of(magnitude) + 0.5f) - detail::bits_of(0.5f);
    }
    bits = static_cast<std::uint16_t>((u >> 16 & 0x8000u) | half);
  }
  GIRO_HOST_DEVICE operator float() const {
#ifdef __CUDA_ARCH__
    float converted;
    asm("cvt.f32.f16 %0, %1;" : "=f"(converted) : "h"(bits));
    return converted;
#else
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    constexpr std::uint32_t kRebase = 112u << 23;  // between the biases of the exponents
    std::uint32_t u = (magnitude << 13) + kRebase;
    if (magnitude >= 0x7c00u) u += kRebase;  // an infinity or NaN
    if (magnitude < 0x0400u) {               // subnormal or 0: without the bit that others have in front
      u = detail::bits_of(detail::float_of(u + (1u << 23)) - 0x1p-14f);
    }
    return detail::float_of(sign | u);
#endif
  }
};

}  // namespace giro
