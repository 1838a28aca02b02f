#pragma once

// PTX's instructions that are not plain C expressions. Each follows the PTX manual where C differs or leaves the result
// undefined. Compile with -ffp-contract=off.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tests/cuda_on_cpu/engine/translated.h"

namespace giro::simt::ptx {

using std::ceil, std::copysign, std::fabs, std::floor, std::fma, std::fmax, std::fmin, std::nearbyint, std::nextafter,
    std::sqrt, std::trunc;

template <class T>
T min(std::type_identity_t<T> a, std::type_identity_t<T> b) {
  return b < a ? b : a;
}

template <class T>
T max(std::type_identity_t<T> a, std::type_identity_t<T> b) {
  return a < b ? b : a;
}

// Integers. PTX does not define division by zero; GPUs give all ones.
template <class T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  }
  return static_cast<T>(a / b);
}

template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}

template <class T>
T multiply_high(T a, T b) {
  __extension__ using Signed = __int128;
  __extension__ using Unsigned = unsigned __int128;
  using Wide = std::conditional_t<std::is_signed_v<T>, Signed, Unsigned>;
  return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (sizeof(T) * 8));
}

template <class T>
T insert_bits(T a, T into, u32 position, u32 length) {
  constexpr u32 kBits = sizeof(T) * 8;
  position &= 0xff;
  length &= 0xff;
  if (length == 0 || position >= kBits) return into;
  const T field = length >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
  const T mask = static_cast<T>(field << position);
  return static_cast<T>((into & ~mask) | (a << position & mask));
}

template <class T>
T extract_bits(T a, u32 position, u32 length) {
  using U = std::make_unsigned_t<T>;
  constexpr u32 kBits = sizeof(T) * 8;
  position &= 0xff;
  length = min<u32>(length & 0xff, kBits);
  if (length == 0) return 0;
  const bool fills = std::is_signed_v<T> && (static_cast<U>(a) >> min<u32>(position + length - 1, kBits - 1) & 1) != 0;
  const U field = length == kBits ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << length) - 1);
  const U taken = position >= kBits ? U{0} : static_cast<U>(static_cast<U>(a) >> position);
  const U inside = position >= kBits ? U{0} : static_cast<U>(static_cast<U>(~U{0}) >> position);
  return static_cast<T>((taken & field) | (fills ? static_cast<U>(~(field & inside)) : U{0}));
}

// prmt.b32 without a mode: each nibble of `selector` picks one of the eight bytes of b:a, or its sign.
inline u32 permute(u32 a, u32 b, u32 selector) {
  const u64 bytes = u64{b} << 32 | a;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 pick = selector >> (4 * i) & 0xf;
    auto byte = static_cast<u8>(bytes >> (8 * (pick & 7)));
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= u32{byte} << (8 * i);
  }
  return result;
}

inline u32 funnel_left(u32 low, u32 high, u32 by) { return static_cast<u32>(((u64{high} << 32 | low) << by) >> 32); }

inline u32 funnel_right(u32 low, u32 high, u32 by) { return static_cast<u32>((u64{high} << 32 | low) >> by); }

template <class T>
T reverse_bits(T a) {
  T result = 0;
  for (u32 i = 0; i < sizeof(T) * 8; ++i) result = static_cast<T>(result << 1 | (a >> i & 1));
  return result;
}

// lop3: looks up each bit of the result by the three input bits above it.
inline u32 lookup_bits(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  for (u32 i = 0; i < 8; ++i) {
    if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  }
  return result;
}

// bfind: the position of the highest bit that differs from the sign, or all ones if there is none.
template <class T>
u32 find_highest(T a) {
  using U = std::make_unsigned_t<T>;
  auto bits = static_cast<U>(a);
  if (std::is_signed_v<T> && a < 0) bits = static_cast<U>(~bits);
  return static_cast<u32>(std::bit_width(bits)) - 1;
}

// bfind.shiftamt: the left shift that would make this bit the highest.
template <class T>
u32 shift_to_highest(T a) {
  const u32 place = find_highest(a);
  return place == ~u32{0} ? place : static_cast<u32>(sizeof(T) * 8 - 1 - place);
}

// Floating point.
template <class T>
T flush(T x) {
  return x != 0 && fabs(x) < std::numeric_limits<T>::min() ? copysign(T{0}, x) : x;
}

template <class T>
T saturate(T x) {
  return x > 0 ? min<T>(x, T{1}) : T{0};  // a NaN becomes 0
}

// min and max return the other operand if one is a NaN, and order -0 below +0.
template <class T>
T minimum(T a, T b) {
  if (a == b) return __builtin_signbit(a) ? a : b;
  return fmin(a, b);
}

template <class T>
T maximum(T a, T b) {
  if (a == b) return __builtin_signbit(a) ? b : a;
  return fmax(a, b);
}

template <class T>
T nan_minimum(T a, T b) {
  return __builtin_isnan(a) || __builtin_isnan(b) ? std::numeric_limits<T>::quiet_NaN() : minimum(a, b);
}

template <class T>
T nan_maximum(T a, T b) {
  return __builtin_isnan(a) || __builtin_isnan(b) ? std::numeric_limits<T>::quiet_NaN() : maximum(a, b);
}

enum class Toward { zero, minus_infinity, plus_infinity };

// fma with a rounding mode other than to nearest. In double the product is exact, and so is the sum together with its
// error. The sum and its error tell on which side of the exact result the nearest float lies.
template <Toward kToward>
f32 fma_rounded(f32 a, f32 b, f32 c) {
  constexpr f32 kInfinity = std::numeric_limits<f32>::infinity(), kMax = std::numeric_limits<f32>::max();
  const f32 nearest = fma(a, b, c);
  const f64 product = f64{a} * f64{b}, sum = product + c;
  const auto down = [](f64 value) {
    return kToward == Toward::minus_infinity || (kToward == Toward::zero && value > 0);
  };
  if (__builtin_isinf(nearest) && __builtin_isfinite(sum)) {  // too large for a float
    if (nearest > 0) return down(sum) ? kMax : kInfinity;
    return down(sum) ? -kInfinity : -kMax;
  }
  if (!__builtin_isfinite(nearest)) return nearest;
  const f64 part = sum - product, error = (product - (sum - part)) + (c - part);
  if (sum == 0 && error == 0) {
    const bool cancels = __builtin_signbit(product) != __builtin_signbit(c);
    return cancels && kToward == Toward::minus_infinity ? -0.0f : nearest;
  }
  const bool above = f64{nearest} > sum || (f64{nearest} == sum && error < 0);
  const bool below = f64{nearest} < sum || (f64{nearest} == sum && error > 0);
  if (down(sum)) return above ? nextafter(nearest, -kInfinity) : nearest;
  return below ? nextafter(nearest, kInfinity) : nearest;
}

// cvt of a float that has been rounded to an integer. It clamps, and turns a NaN into 0, or into 1 << 63 if either side
// has 64 bits.
template <class To, class From>
To to_integer(From x) {
  using Limits = std::numeric_limits<To>;
  if (__builtin_isnan(x)) {
    return sizeof(To) == 8 || sizeof(From) == 8 ? static_cast<To>(std::make_unsigned_t<To>{1} << (sizeof(To) * 8 - 1))
                                                : To{0};
  }
  if (x < static_cast<From>(Limits::min())) return Limits::min();
  // max() + 1 is a power of two, so it is exact in every float type.
  if (x >= 2 * static_cast<From>(To{1} << (Limits::digits - 1))) return Limits::max();
  return static_cast<To>(x);
}

// binary16. GPUs have a single NaN for it.
inline f32 float_of_half(u16 bits) { return static_cast<f32>(std::bit_cast<_Float16>(bits)); }
inline u16 half_of_float(f32 x) {
  return __builtin_isnan(x) ? u16{0x7fff} : std::bit_cast<u16>(static_cast<_Float16>(x));
}
// To nearest, ties to even. A NaN becomes 0x7fff, as for cvt in the PTX ISA.
inline u16 bfloat16_of_float(f32 x) {
  const u32 bits = std::bit_cast<u32>(x);
  return __builtin_isnan(x) ? u16{0x7fff} : static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The approximate functions. Here they are exact except for the last rounding.
inline f32 exp2_approx(f32 x) { return static_cast<f32>(__builtin_exp2(f64{x})); }
inline f32 log2_approx(f32 x) { return static_cast<f32>(__builtin_log2(f64{x})); }
inline f32 sin_approx(f32 x) { return static_cast<f32>(__builtin_sin(f64{x})); }
inline f32 cos_approx(f32 x) { return static_cast<f32>(__builtin_cos(f64{x})); }
inline f32 tanh_approx(f32 x) { return static_cast<f32>(__builtin_tanh(f64{x})); }
template <class T>
T rsqrt_approx(T x) {
  return static_cast<T>(1 / sqrt(f64{x}));
}
// rcp.approx.ftz.f64 reads only the upper 32 bits and returns only those.
inline f64 rcp_upper_half(f64 x) {
  const auto upper = [](f64 v) { return std::bit_cast<f64>(std::bit_cast<u64>(v) & ~u64{0xffffffff}); };
  return upper(1 / flush(upper(x)));
}

// Atomics: the new value of the word.
template <class T>
T increment(T old, T limit) {
  return old >= limit ? T{0} : static_cast<T>(old + 1);
}

template <class T>
T decrement(T old, T limit) {
  return old == 0 || old > limit ? limit : static_cast<T>(old - 1);
}

}  // namespace giro::simt::ptx
