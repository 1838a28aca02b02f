#pragma once

#include <cstdint>
#include <cstring>

#include <giro/runtime/host_device.h>

namespace giro {

// 16-bit storage formats. Arithmetic is done in float; conversion from float rounds to nearest even and keeps NaN a
// NaN.

// bfloat16: the upper half of an IEEE binary32.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  GIRO_HOST_DEVICE BFloat16(float value) {
    std::uint32_t u;
    std::memcpy(&u, &value, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  GIRO_HOST_DEVICE operator float() const {
    const std::uint32_t u = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &u, sizeof value);
    return value;
  }
};

// IEEE binary16.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  GIRO_HOST_DEVICE Float16(float value) {
    std::uint32_t u;
    std::memcpy(&u, &value, sizeof u);
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    const std::uint32_t magnitude = u & 0x7fffffffu;
    std::uint32_t half;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
      half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // normal in binary16
      const std::uint32_t rebased = magnitude - 0x38000000u;
      half = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
    } else if (magnitude >= 0x33000000u) {  // subnormal in binary16
      const std::uint32_t shift = 126u - (magnitude >> 23);
      const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
      const std::uint32_t kept = mantissa >> shift;
      const std::uint32_t rest = mantissa & ((1u << shift) - 1u);
      const std::uint32_t tie = 1u << (shift - 1u);
      half = kept + (rest > tie || (rest == tie && (kept & 1u)) ? 1u : 0u);
    } else {
      half = 0;
    }
    bits = static_cast<std::uint16_t>(sign | half);
  }
  GIRO_HOST_DEVICE operator float() const {
#ifdef __CUDA_ARCH__
    float converted;
    asm("cvt.f32.f16 %0, %1;" : "=f"(converted) : "h"(bits));
    return converted;
#else
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    std::uint32_t exponent = (bits >> 10) & 0x1fu;
    std::uint32_t mantissa = bits & 0x3ffu;
    std::uint32_t u;
    if (exponent == 0x1f) {
      u = sign | 0x7f800000u | (mantissa << 13);
    } else if (exponent != 0) {
      u = sign | ((exponent + 112u) << 23) | (mantissa << 13);
    } else if (mantissa == 0) {
      u = sign;
    } else {
      exponent = 113;
      while (!(mantissa & 0x400u)) {
        mantissa <<= 1;
        --exponent;
      }
      u = sign | (exponent << 23) | ((mantissa & 0x3ffu) << 13);
    }
    float value;
    std::memcpy(&value, &u, sizeof value);
    return value;
#endif
  }
};

}  // namespace giro
