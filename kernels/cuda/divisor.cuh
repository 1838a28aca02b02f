#pragma once

#include <bit>
#include <cstdint>

namespace giro::cuda {

// A positive number to divide ints of at least 0 by, with a multiplication in place of a division.
struct Divisor {
  int value;

  // 2^s < factor * value <= 2^s + 2^log with s = 31 + log, so for n < 2^31, n * factor / 2^s is too large by less than
  // 1 / value.
  explicit Divisor(int of)
      : value(of),
        log(std::bit_width(static_cast<std::uint32_t>(of - 1))),
        factor(static_cast<std::uint32_t>((std::uint64_t{1} << (31 + log)) / static_cast<std::uint64_t>(of) + 1)) {}

  friend __device__ int operator/(int n, const Divisor& d) {
    return static_cast<int>(__umulhi(static_cast<std::uint32_t>(n) * 2, d.factor) >> d.log);
  }
  friend __device__ int operator%(int n, const Divisor& d) { return n - n / d * d.value; }

 private:
  int log;  // log2(value), rounded up
  std::uint32_t factor;
};

}  // namespace giro::cuda
