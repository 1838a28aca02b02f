#pragma once

#include <concepts>
#include <type_traits>

#include "kernels/expr/instruction_sets.h"

// Arithmetic for every dtype. Integers wrap, and an integer divided by zero gives zero.
namespace giro::expr::math {

// The type in which integers are computed, so that overflow is defined.
template <class T>
using Wrapping = std::make_unsigned_t<std::common_type_t<T, int>>;

template <class T>
GIRO_LOOP_INLINE T plus(T a, T b) {
  if constexpr (std::floating_point<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
}

template <class T>
GIRO_LOOP_INLINE T minus(T a, T b) {
  if constexpr (std::floating_point<T>) {
    return a - b;
  } else {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
}

template <class T>
GIRO_LOOP_INLINE T times(T a, T b) {
  if constexpr (std::floating_point<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
}

template <class T>
GIRO_LOOP_INLINE T negative(T a) {
  if constexpr (std::floating_point<T>) {
    return -a;
  } else {
    return minus(T(0), a);
  }
}

// Rounded toward zero.
template <class T>
  requires std::integral<T>
GIRO_LOOP_INLINE T quotient(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return negative(a);  // the one quotient that can overflow
  }
  return b == T(0) ? T(0) : static_cast<T>(a / b);
}

// Has the sign of a. For floats, see fmod.
template <class T>
  requires std::integral<T>
GIRO_LOOP_INLINE T remainder(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return T(0);
  }
  return b == T(0) ? T(0) : static_cast<T>(a % b);
}

// NaN if either is; a if they are equal.
template <class T>
GIRO_LOOP_INLINE T maximum(T a, T b) {
  if constexpr (std::floating_point<T>) {
    return b > a || b != b ? b : a;
  } else {
    return a > b ? a : b;
  }
}

template <class T>
GIRO_LOOP_INLINE T minimum(T a, T b) {
  if constexpr (std::floating_point<T>) {
    return b < a || b != b ? b : a;
  } else {
    return a < b ? a : b;
  }
}

// 1, 0 or -1; zeros and NaN are returned unchanged.
template <class T>
GIRO_LOOP_INLINE T sign(T a) {
  return a > T(0) ? T(1) : a < T(0) ? static_cast<T>(-1) : a;
}

template <class T>
  requires std::integral<T>
GIRO_LOOP_INLINE T abs(T a) {
  if constexpr (std::is_signed_v<T>) {
    return a < T(0) ? negative(a) : a;
  } else {
    return a;
  }
}

}  // namespace giro::expr::math
