#pragma once

#include <bit>
#include <cstdint>

namespace giro::cpu {

// e^x for x <= 0 within 1.5e-7 of it, and zero where a float has no normal number for it; NaN for NaN. Unlike std::exp
// it becomes vector code. The polynomial is that of Cephes' expf.
inline float exp_nonpositive(float x) {
  constexpr float kLowest = -87.0f;
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRounds = 12582912.0f;  // 1.5 * 2^23: adding it leaves no bits for a fraction
  const float bounded = x < kLowest ? kLowest : x;
  const float shifted = bounded * kLog2E + kRounds;
  const float n = shifted - kRounds;
  const float r = bounded - n * kLn2High - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float mantissa = p * (r * r) + r + 1.0f;
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + (127u << 23));
  return x < kLowest ? 0.0f : mantissa * power;
}

}  // namespace giro::cpu
