#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include <giro/runtime/host_device.h>

namespace giro::cuda {

// A nonnegative divisor for nonnegative ints, which multiplies instead of dividing. It may be 0 if nothing is divided
// by it.
struct Divisor {
  int value;

  // 2^s < factor * value <= 2^s + 2^log with s = 31 + log, so for n < 2^31, n * factor / 2^s is too large by less than
  // 1 / value.
  explicit Divisor(int of)
      : value(of),
        log(std::bit_width(static_cast<std::uint32_t>(std::max(of, 1) - 1))),
        factor(static_cast<std::uint32_t>(
            (std::uint64_t{1} << (31 + log)) / static_cast<std::uint64_t>(std::max(of, 1)) + 1)) {}

  GIRO_HOST_DEVICE friend int operator/(int n, const Divisor& d) {
    const std::uint32_t twice = static_cast<std::uint32_t>(n) * 2;
#ifdef __CUDA_ARCH__
    const std::uint32_t high = __umulhi(twice, d.factor);
#else
    const auto high = static_cast<std::uint32_t>(std::uint64_t{twice} * d.factor >> 32);
#endif
    return static_cast<int>(high >> d.log);
  }
  GIRO_HOST_DEVICE friend int operator%(int n, const Divisor& d) { return n - n / d * d.value; }

 private:
  int log;  // log2(value), rounded up
  std::uint32_t factor;
};

}  // namespace giro::cuda
