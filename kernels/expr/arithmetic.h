#pragma once

#include <cstdint>

#include "kernels/expr/instruction_sets.h"

// Arithmetic for every dtype, as kernels/cuda/expression_prelude.cpp has it for GPUs.
namespace giro::expr::math {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using f32 = float;
using f64 = double;

#define GIRO_ARITHMETIC GIRO_LOOP_INLINE
#define GIRO_DEVICE_CODE(...) __VA_ARGS__
#include "kernels/expr/arithmetic_code.h"
#undef GIRO_DEVICE_CODE
#undef GIRO_ARITHMETIC

// NaN if either is; a if they are equal. GCC makes no vectors of it if a function asks whether b is NaN.
template <class T>
GIRO_LOOP_INLINE T maximum(T a, T b) {
  return b > a || b != b ? b : a;
}
template <class T>
GIRO_LOOP_INLINE T minimum(T a, T b) {
  return b < a || b != b ? b : a;
}

}  // namespace giro::expr::math
