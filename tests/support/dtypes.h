#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

#include <giro/runtime/dtype.h>
#include <giro/runtime/float16.h>

namespace giro::test {

// Returns f(T()) for the type that stores the dtype. A bool is stored as its byte.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::f16:
      return f(Float16{});
    case DType::f64:
      return f(double{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    default:
      return f(std::uint8_t{});
  }
}

// Half the distance from 1 to the next value: the largest relative error of one rounding.
inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x1p-24;
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
    default:
      return 0x1p-53;
  }
}

// The value of a floating dtype nearest to x, with ties to even. It follows the definitions of the formats, so that it
// can check the library's conversions.
inline double round_to(DType dtype, double x) {
  int digits = 0, min_exponent = 0;
  double largest = 0;
  switch (dtype) {
    case DType::f32:
      digits = 24, min_exponent = -126, largest = FLT_MAX;
      break;
    case DType::bf16:
      digits = 8, min_exponent = -126, largest = 0x1.fep127;
      break;
    case DType::f16:
      digits = 11, min_exponent = -14, largest = 65504;
      break;
    default:
      return x;
  }
  if (x == 0 || !std::isfinite(x)) return x;
  const double ulp = std::ldexp(1.0, std::max(std::ilogb(x), min_exponent) - digits + 1);
  const double rounded = std::nearbyint(x / ulp) * ulp;
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

}  // namespace giro::test
