#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/expr/instruction_sets.h"

// The functions of C's math.h. The float versions have no branches or calls, so they vectorize, and give the same bits
// with every instruction set. Their errors are within 2 units in the last place (ulp) unless noted. The double versions
// are the C library's. On a machine without an fma instruction, fma is a call, which is slow but gives the same bits.
namespace giro::expr::math {

// A call that compilers do not replace with a vector library's function, which would round differently.
template <double (*kFunction)(double)>
__attribute__((noinline)) double call(double x) {
  return kFunction(x);
}
template <double (*kFunction)(double, double)>
__attribute__((noinline)) double call(double x, double y) {
  return kFunction(x, y);
}

#define GIRO_OF_DOUBLE(NAME) \
  GIRO_LOOP_INLINE double NAME(double x) { return call<::NAME>(x); }
GIRO_OF_DOUBLE(exp)
GIRO_OF_DOUBLE(exp2)
GIRO_OF_DOUBLE(expm1)
GIRO_OF_DOUBLE(log)
GIRO_OF_DOUBLE(log2)
GIRO_OF_DOUBLE(log10)
GIRO_OF_DOUBLE(log1p)
GIRO_OF_DOUBLE(sin)
GIRO_OF_DOUBLE(cos)
GIRO_OF_DOUBLE(tan)
GIRO_OF_DOUBLE(asin)
GIRO_OF_DOUBLE(acos)
GIRO_OF_DOUBLE(atan)
GIRO_OF_DOUBLE(sinh)
GIRO_OF_DOUBLE(cosh)
GIRO_OF_DOUBLE(tanh)
GIRO_OF_DOUBLE(erf)
GIRO_OF_DOUBLE(erfc)
GIRO_OF_DOUBLE(cbrt)
#undef GIRO_OF_DOUBLE
GIRO_LOOP_INLINE double pow(double x, double y) { return call<::pow>(x, y); }
GIRO_LOOP_INLINE double atan2(double y, double x) { return call<::atan2>(y, x); }
GIRO_LOOP_INLINE double fmod(double x, double y) { return call<::fmod>(x, y); }

// Exact or correctly rounded, except rsqrt, which rounds twice.
#define GIRO_OF_BOTH(NAME, CODE_OF_FLOAT, CODE_OF_DOUBLE)        \
  GIRO_LOOP_INLINE float NAME(float x) { return CODE_OF_FLOAT; } \
  GIRO_LOOP_INLINE double NAME(double x) { return CODE_OF_DOUBLE; }
GIRO_OF_BOTH(sqrt, __builtin_sqrtf(x), __builtin_sqrt(x))
GIRO_OF_BOTH(rsqrt, 1 / __builtin_sqrtf(x), 1 / __builtin_sqrt(x))
GIRO_OF_BOTH(abs, __builtin_fabsf(x), __builtin_fabs(x))
GIRO_OF_BOTH(fabs, __builtin_fabsf(x), __builtin_fabs(x))
GIRO_OF_BOTH(floor, __builtin_floorf(x), __builtin_floor(x))
GIRO_OF_BOTH(ceil, __builtin_ceilf(x), __builtin_ceil(x))
GIRO_OF_BOTH(trunc, __builtin_truncf(x), __builtin_trunc(x))
GIRO_OF_BOTH(rint, __builtin_rintf(x), __builtin_rint(x))
#undef GIRO_OF_BOTH
template <class T>
GIRO_LOOP_INLINE bool isnan(T x) {
  return x != x;
}
template <class T>
GIRO_LOOP_INLINE bool isinf(T x) {
  return fabs(x) == std::numeric_limits<T>::infinity();
}
template <class T>
GIRO_LOOP_INLINE bool isfinite(T x) {
  return fabs(x) < std::numeric_limits<T>::infinity();
}
GIRO_LOOP_INLINE float copysign(float x, float y) { return __builtin_copysignf(x, y); }
GIRO_LOOP_INLINE double copysign(double x, double y) { return __builtin_copysign(x, y); }

// Use the C library, one element at a time.
GIRO_LOOP_INLINE float erfc(float x) { return static_cast<float>(call<::erfc>(static_cast<double>(x))); }
GIRO_LOOP_INLINE float cbrt(float x) { return static_cast<float>(call<::cbrt>(static_cast<double>(x))); }
GIRO_LOOP_INLINE float fmod(float x, float y) {
  return static_cast<float>(call<::fmod>(static_cast<double>(x), static_cast<double>(y)));
}

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

GIRO_LOOP_INLINE std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
GIRO_LOOP_INLINE std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }
GIRO_LOOP_INLINE float as_float(std::uint32_t u) { return std::bit_cast<float>(u); }
GIRO_LOOP_INLINE double as_double(std::uint64_t u) { return std::bit_cast<double>(u); }

// ((highest x + next) x + ...) x + last.
template <class T, class... Lower>
GIRO_LOOP_INLINE T polynomial(T x, T highest, Lower... lower) {
  ((highest = highest * x + lower), ...);
  return highest;
}

// 2^n, n in [-126, 127].
GIRO_LOOP_INLINE float two_to(std::int32_t n) { return as_float((static_cast<std::uint32_t>(n) + 127u) << 23); }

// Constants of exponential.h, hidden from the compiler. GCC would otherwise compute the results for both the constant
// and x, and select between the two results instead of the two inputs.
struct ExpLimits {
  float least, most;
};
struct TanhLimits {
  float most, one;
};
extern const ExpLimits kExpLimits;
extern const TanhLimits kTanhLimits;

// The operations that exponential.h needs, for a float. NaN stays NaN.
GIRO_LOOP_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
GIRO_LOOP_INLINE float at_most(float x, float most) { return most < x ? most : x; }
GIRO_LOOP_INLINE float at_least(float x, float least) { return least > x ? least : x; }
// x 2^n, for n in [-150, 129] and `shifted` from exp_parts. In two steps, as 2^n alone may be out of range.
GIRO_LOOP_INLINE float times_two_to(float x, float shifted) {
  const std::uint32_t u = bits(shifted), half = u >> 1;
  return x * as_float(half << 23) * as_float((u - half) << 23);
}
// 4^n / 2, for shifted = 1.5 * 2^23 + 63 + n.
GIRO_LOOP_INLINE float half_of_four_to(float shifted) { return as_float(bits(shifted) << 24); }
GIRO_LOOP_INLINE float with_sign_of(float x, float y) { return as_float(bits(x) | (bits(y) & 0x80000000u)); }  // x >= 0
#define GIRO_FORMULA GIRO_LOOP_INLINE
#include "kernels/expr/exponential.h"
#undef GIRO_FORMULA

// The n of exp_parts; for a NaN, an arbitrary number.
GIRO_LOOP_INLINE std::int32_t integer_of(const ExpParts<float>& e) {
  return static_cast<std::int32_t>(bits(e.shifted) - bits(kRounds + 254.0f));
}

// e^x / 2 for x >= 0.
GIRO_LOOP_INLINE float half_exp(float x) {
  const ExpParts<float> e = exp_parts(x > 90.0f ? 90.0f : x);
  const std::int32_t n = integer_of(e) - 1, half = n >> 1;
  return (e.p * (e.r * e.r) + e.r + 1.0f) * two_to(half) * two_to(n - half);
}

GIRO_LOOP_INLINE float expm1(float x) {
  const float bounded = x < -20.0f ? -20.0f : x > 89.0f ? 89.0f : x;
  const ExpParts<float> e = exp_parts(bounded);
  const float half = two_to(integer_of(e) - 1);  // n may be 128
  const float result = ((e.p * (e.r * e.r) + e.r) * half + (half - 0.5f)) * 2.0f;
  return fabs(x) < 0x1p-26f ? x : result;  // -0, and numbers too small to halve
}

GIRO_LOOP_INLINE float sinh(float x) {
  const float half = half_exp(fabs(x)), z = x * x;
  const float near = ((2.03721912945e-4f * z + 8.33028376239e-3f) * z + 1.66667160211e-1f) * z * x + x;
  return fabs(x) < 1.0f ? near : copysign(half - 0.25f / half, x);
}
GIRO_LOOP_INLINE float cosh(float x) {
  const float half = half_exp(fabs(x));
  return half + 0.25f / half;
}

// ln(1 + f) + n ln 2 for 1 + f in [sqrt(1/2), sqrt(2)): Cephes' logf.
GIRO_LOOP_INLINE float log_of_parts(float f, float n) {
  const float z = f * f;
  const float p =
      polynomial(f, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                 -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
  return f + (p * f * z + n * -2.12194440e-4f - 0.5f * z) + n * 0.693359375f;
}
// `result` for finite x > 0, else the limit or NaN.
GIRO_LOOP_INLINE float log_or_limit(float x, float result) {
  return x > 0.0f ? (x < kInf ? result : x) : x == 0.0f ? -kInf : kNan;
}
inline constexpr std::uint32_t kSqrtHalf = 0x3f3504f3u;

GIRO_LOOP_INLINE float log(float x) {
  const bool tiny = x < 0x1p-126f;
  const std::uint32_t u = bits(tiny ? x * 0x1p23f : x);
  const std::int32_t n = static_cast<std::int32_t>(u - kSqrtHalf) >> 23;
  const float m = as_float(u - (static_cast<std::uint32_t>(n) << 23));
  return log_or_limit(x, log_of_parts(m - 1.0f, static_cast<float>(tiny ? n - 23 : n)));
}

GIRO_LOOP_INLINE float log1p(float x) {
  const std::int32_t n = static_cast<std::int32_t>(bits(1.0f + x) - kSqrtHalf) >> 23;
  const std::int32_t half = n >> 1;  // 2^-n may be out of range
  const float f = x * two_to(-half) * two_to(half - n) + (two_to(n > 126 ? -126 : -n) - 1.0f);
  const float result = log_or_limit(1.0f + x, log_of_parts(f, static_cast<float>(n)));
  return fabs(x) < 0x1p-26f ? x : result;
}

// A normal x is m 2^exponent, with m between sqrt(1/2) and sqrt(2) and ln m = 2 atanh s.
struct LogParts {
  double exponent, s;
};
GIRO_LOOP_INLINE LogParts log_parts(double x) {
  constexpr std::uint64_t kOne = 0x3ff0000000000000u, kRootHalf = 0x3fe6a09e667f3bcdu;
  const std::uint64_t n = (bits(x) + (kOne - kRootHalf)) >> 52;  // 1023 more than the exponent
  const double m = as_double(bits(x) - (n << 52) + kOne);
  return {as_double(n | 0x4330000000000000u) - (0x1p52 + 1023), (m - 1) / (m + 1)};
}

// log2 of x >= 0 within 2^-38, and 2^t within a relative error of 2^-36.
GIRO_LOOP_INLINE double log2_in_double(float x) {
  const double d = static_cast<double>(x);
  const auto [exponent, s] = log_parts(d);
  const double z = s * s;
  const double p = polynomial(z, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3);
  const double result = (p * z * s + s) * 2.8853900817779268 + exponent;  // 2 / ln 2
  return x == 0.0f                                     ? -std::numeric_limits<double>::infinity()
         : d < std::numeric_limits<double>::infinity() ? result
                                                       : d;
}
GIRO_LOOP_INLINE double exp2_in_double(double t) {
  const double bounded = t < -1000 ? -1000 : t > 1000 ? 1000 : t;
  constexpr double kRounds = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = bounded + kRounds;
  const double r = (bounded - (shifted - kRounds)) * 0.69314718055994531;
  const double p = polynomial(r, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                              1.0 / 6, 0.5, 1.0, 1.0);
  return p * as_double((bits(shifted) << 52) + 0x3ff0000000000000u);
}
GIRO_LOOP_INLINE float exp2(float x) { return static_cast<float>(exp2_in_double(static_cast<double>(x))); }
GIRO_LOOP_INLINE float log2(float x) { return x < 0.0f ? kNan : static_cast<float>(log2_in_double(x)); }
GIRO_LOOP_INLINE float log10(float x) {
  return x < 0.0f ? kNan : static_cast<float>(log2_in_double(x) * 0.30102999566398120);
}

GIRO_LOOP_INLINE float pow(float x, float y) {
  const float a = fabs(x);
  const bool is_integer = rint(y) == y, is_odd = is_integer && rint(0.5f * y) != 0.5f * y;
  const float power = static_cast<float>(exp2_in_double(static_cast<double>(y) * log2_in_double(a)));
  const float known = x < 0.0f && x > -kInf && !is_integer ? kNan : power;
  const float with_sign = is_odd ? copysign(known, x) : known;
  const bool is_one = x == 1.0f || y == 0.0f || (x == -1.0f && fabs(y) == kInf);
  return is_one ? 1.0f : with_sign;
}

// 2/pi * 2^k modulo 4, for the exponents k of floats from 2^23 up: the first 29 bits, whose product with a float is
// exact, and the next 53 bits.
struct QuarterTurns {
  std::array<double, 105> high{}, low{};
};
consteval QuarterTurns quarter_turns() {
  constexpr std::uint32_t kTwoOverPi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041};
  QuarterTurns result;
  for (int k = 0; k < 105; ++k) {
    double* const parts[] = {&result.high[static_cast<std::size_t>(k)], &result.low[static_cast<std::size_t>(k)]};
    double weight = 2;
    for (int i = k - 1; i <= k + 80; ++i, weight /= 2) {
      if (i >= 1 && (kTwoOverPi[(i - 1) / 32] >> (31 - (i - 1) % 32) & 1) != 0) *parts[i > k + 27] += weight;
    }
  }
  return result;
}
inline constexpr QuarterTurns kQuarterTurns = quarter_turns();

// x = (n + r) pi / 2 with |r| <= 1/2. Holds n modulo 4, and r pi / 2 to double precision even close to a multiple of pi
// / 2.
struct Angle {
  std::uint32_t n;
  double r;
};
GIRO_LOOP_INLINE Angle angle_of(float x) {
  const std::int32_t exponent = static_cast<std::int32_t>(bits(x) >> 23 & 255u) - 150;
  const std::int32_t k = exponent < 0 ? 0 : exponent > 104 ? 104 : exponent;
  const double m = static_cast<double>(x * two_to(-k));
  constexpr double kRounds = 6755399441055744.0;
  const double turns = m * kQuarterTurns.high[static_cast<std::size_t>(k)];
  const double first = turns + kRounds;
  const double rest = (turns - (first - kRounds)) + m * kQuarterTurns.low[static_cast<std::size_t>(k)];
  const double second = rest + kRounds;
  return {static_cast<std::uint32_t>(bits(first) + bits(second)), (rest - (second - kRounds)) * 1.5707963267948966};
}
GIRO_LOOP_INLINE double sin_of_part(double r) {
  const double z = r * r;
  const double p = ((2.7183114939898219064e-6 * z - 1.98393348360966317347e-4) * z + 8.3333293858894631756e-3) * z;
  return r * (1 + z * (p - 0.166666666416265235595));  // -0 for -0
}
GIRO_LOOP_INLINE double cos_of_part(double r) {
  const double z = r * r;
  const double p = ((2.43904487962774090654e-5 * z - 1.38867637746099294692e-3) * z + 4.16666233237390631894e-2) * z;
  return 1 + z * (p - 0.499999997251031003120);
}
// sin of x + quarters pi / 2.
GIRO_LOOP_INLINE float sin_of(Angle angle, std::uint32_t quarters) {
  const std::uint32_t n = angle.n + quarters;
  const float value = static_cast<float>((n & 1u) != 0 ? cos_of_part(angle.r) : sin_of_part(angle.r));
  return as_float(bits(value) ^ (n & 2u) << 30);
}
GIRO_LOOP_INLINE float sin(float x) { return sin_of(angle_of(x), 0); }
GIRO_LOOP_INLINE float cos(float x) { return sin_of(angle_of(x), 1); }
GIRO_LOOP_INLINE float tan(float x) {
  const Angle angle = angle_of(x);
  const double s = sin_of_part(angle.r), c = cos_of_part(angle.r);
  const bool odd = (angle.n & 1u) != 0;
  return static_cast<float>((odd ? -c : s) / (odd ? s : c));
}

// (asin(x) - x) / x for x^2 = z <= 1/4: Cephes' asinf.
GIRO_LOOP_INLINE float asin_part(float z) {
  return ((((4.2163199048e-2f * z + 2.4181311049e-2f) * z + 4.5470025998e-2f) * z + 7.4953002686e-2f) * z +
          1.6666752422e-1f) *
         z;
}
// Within 3 units in the last place.
GIRO_LOOP_INLINE float asin(float x) {
  const float a = fabs(x);
  const bool large = a > 0.5f;
  const float z = large ? 0.5f * (1.0f - a) : a * a;
  const float s = large ? sqrt(z) : a;
  const float part = s + s * asin_part(z);
  return copysign(large ? 1.57079637f - (2.0f * part + 4.37113883e-8f) : part, x);
}
GIRO_LOOP_INLINE float acos(float x) {
  const float a = fabs(x);
  const bool large = a > 0.5f;
  const float z = large ? 0.5f * (1.0f - a) : a * a;
  const float s = large ? sqrt(z) : x;
  const float part = s + s * asin_part(z);
  return large ? (x > 0.0f ? 2.0f * part : 3.14159265359f - 2.0f * part) : 1.57079632679f - part;
}

// Cephes' atanf.
GIRO_LOOP_INLINE float atan(float x) {
  const float a = fabs(x);
  const bool large = a > 2.414213562373095f, middle = a > 0.4142135623730950f;
  const float r = large ? -1.0f / a : middle ? (a - 1.0f) / (a + 1.0f) : a;
  const float z = r * r;
  const float p = (((8.05374449538e-2f * z - 1.38776856032e-1f) * z + 1.99777106478e-1f) * z - 3.33329491539e-1f) * z;
  // pi / 2 and pi / 4, each as two floats.
  const float high = large ? 1.57079637f : middle ? 0.785398185f : 0.0f;
  const float low = large ? -4.37113883e-8f : middle ? -2.18556941e-8f : 0.0f;
  return copysign((p * r + low + r) + high, x);
}
// Within 3 units in the last place.
GIRO_LOOP_INLINE float atan2(float y, float x) {
  const float a = fabs(y), b = fabs(x);
  const float ratio = a == b ? (a == 0.0f ? 0.0f : 1.0f) : a / b;
  const float part = atan(ratio);
  const float angle = bits(x) >> 31 != 0 ? 3.14159265359f - part : part;
  return isnan(x) || isnan(y) ? x + y : copysign(angle, y);
}

// Two minimax polynomials: of erf(x) / x - 1 below 0.92, and of ln(1 - erf(x)) above.
GIRO_LOOP_INLINE float erf(float x) {
  const float a = fabs(x), s = x * x;
  float far = -1.72853470e-5f * a + 3.83197126e-4f;
  far = far * s + (-3.88396438e-3f * a + 2.42546219e-2f);
  far = polynomial(a, far, -1.06777877e-1f, -6.34846687e-1f, -1.28717512e-1f, -a);
  const float near =
      polynomial(s, -5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f, -3.76125336e-1f, 1.28379166e-1f);
  return a > 0.921875f ? copysign(1.0f - exp(a > 4.0f ? -20.0f : far), x) : near * x + x;
}

}  // namespace giro::expr::math
