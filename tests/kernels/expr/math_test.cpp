#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/expr/scalar_function.h"
#include "tests/support/sanitized.h"

namespace giro::test {
namespace {

namespace p = giro::expr;

// The distance from `found` to `wanted` in units in the last place of `wanted`. A zero must have the right sign.
double units_off(float found, double wanted) {
  const auto rounded = static_cast<float>(wanted);
  if (std::isnan(wanted)) return std::isnan(found) ? 0 : HUGE_VAL;
  if (std::isinf(rounded)) {  // the largest float is next to infinity
    return found == rounded ? 0 : std::abs(found) == std::numeric_limits<float>::max() ? 1 : HUGE_VAL;
  }
  if (rounded == 0 && found == 0) return std::signbit(found) == std::signbit(rounded) ? 0 : HUGE_VAL;
  int exponent = 0;
  std::frexp(wanted, &exponent);
  return std::abs(static_cast<double>(found) - wanted) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// Floats of every exponent, more from the ranges that matter most, and the limits of the functions' ranges and
// branches.
std::vector<float> samples() {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += kSanitized ? 1048573 : 16381) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> small(-4, 4), large(-120, 120);
  for (int i = 0; i < cases(100000); ++i) {
    x.push_back(small(engine));
    x.push_back(large(engine));
  }
  for (const float end :
       {0.0f,      1.0f,       0.5f,        0.625f,      88.72283f,      88.722839f, 87.33654f,    103.97208f,
        104.0f,    0x1p-126f,  0x1p-149f,   0x1p-26f,    3.40282347e38f, HUGE_VALF,  9.5f,         4.0f,
        0.921875f, 2.4142135f, 16777216.0f, 1.57079637f, 3.14159274f,    1e22f,      11 * 0x1p100f}) {
    for (const float sign : {1.0f, -1.0f}) {
      x.push_back(sign * end);
      x.push_back(std::nextafter(sign * end, 0.0f));
      x.push_back(std::nextafter(sign * end, sign * HUGE_VALF));
    }
  }
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  return x;
}

template <class Code, int kInputs>
void check(const char* name, double (*reference)(double, double), double units, const std::vector<float>& a,
           const std::vector<float>& b) {
  constexpr p::Loops loops = p::loops_of<Code, kInputs, p::Takes::floating>();
  std::vector<float> first(a.size()), y(a.size());
  const void* const in[] = {a.data(), b.data(), b.data()};
  const p::InstructionSet before = p::instruction_set();
  for (const p::InstructionSet set : {p::kBaseline, p::kAvx2, p::kAvx512}) {
    if (!p::use_instruction_set(set)) continue;
    const p::Loop loop = loops.get(DType::f32);
    loop(in, y.data(), static_cast<std::int64_t>(y.size()));
    if (set == p::kBaseline) first = y;
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_TRUE(std::bit_cast<std::uint32_t>(y[i]) == std::bit_cast<std::uint32_t>(first[i]) ||
                  (std::isnan(y[i]) && std::isnan(first[i])))
          << name << " of " << a[i] << ": other bits with instruction set " << set;
    }
  }
  p::use_instruction_set(before);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double wanted = reference(static_cast<double>(a[i]), static_cast<double>(b[i]));
    ASSERT_LE(units_off(first[i], wanted), units) << name << " of " << a[i] << ", " << b[i] << " is " << first[i];
  }
  // For double the C library's function is used.
  std::vector<double> c(a.begin(), a.end()), d(b.begin(), b.end()), z(a.size());
  const void* const doubles[] = {c.data(), d.data(), d.data()};
  loops.get(DType::f64)(doubles, z.data(), static_cast<std::int64_t>(z.size()));
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double wanted = reference(c[i], d[i]);
    ASSERT_TRUE(std::abs(z[i] - wanted) <= 1e-15 * std::abs(wanted) || z[i] == wanted ||
                (std::isnan(z[i]) && std::isnan(wanted)))
        << name << " of " << c[i] << ", " << d[i];
  }
}

#define GIRO_CODE_OF(NAME, REFERENCE)                       \
  struct NAME##_code {                                      \
    template <class T, class A>                             \
    GIRO_LOOP_INLINE static auto value(A a, T, T) {         \
      return p::math::NAME(a);                              \
    }                                                       \
    static double reference(double v) { return REFERENCE; } \
  };
GIRO_CODE_OF(exp, std::exp(v))
GIRO_CODE_OF(exp2, std::exp2(v))
GIRO_CODE_OF(expm1, std::expm1(v))
GIRO_CODE_OF(log, std::log(v))
GIRO_CODE_OF(log2, std::log2(v))
GIRO_CODE_OF(log10, std::log10(v))
GIRO_CODE_OF(log1p, std::log1p(v))
GIRO_CODE_OF(sin, std::sin(v))
GIRO_CODE_OF(cos, std::cos(v))
GIRO_CODE_OF(tan, std::tan(v))
GIRO_CODE_OF(asin, std::asin(v))
GIRO_CODE_OF(acos, std::acos(v))
GIRO_CODE_OF(atan, std::atan(v))
GIRO_CODE_OF(sinh, std::sinh(v))
GIRO_CODE_OF(cosh, std::cosh(v))
GIRO_CODE_OF(tanh, std::tanh(v))
GIRO_CODE_OF(erf, std::erf(v))
GIRO_CODE_OF(erfc, std::erfc(v))
GIRO_CODE_OF(cbrt, std::cbrt(v))
GIRO_CODE_OF(sqrt, std::sqrt(v))
GIRO_CODE_OF(rsqrt, 1 / std::sqrt(v))
GIRO_CODE_OF(abs, std::abs(v))
GIRO_CODE_OF(floor, std::floor(v))
GIRO_CODE_OF(ceil, std::ceil(v))
GIRO_CODE_OF(trunc, std::trunc(v))
GIRO_CODE_OF(rint, std::rint(v))
#define GIRO_CHECK(NAME, UNITS) \
  check<NAME##_code, 1>(        \
      #NAME, [](double v, double) { return NAME##_code::reference(v); }, UNITS, x, x)

TEST(PointwiseMathTest, UnitsInTheLastPlace) {
  const std::vector<float> x = samples();
  GIRO_CHECK(exp, 1);
  GIRO_CHECK(exp2, 0.51);
  GIRO_CHECK(expm1, 1.6);
  GIRO_CHECK(log, 1);
  GIRO_CHECK(log2, 0.51);
  GIRO_CHECK(log10, 0.51);
  GIRO_CHECK(log1p, 1.5);
  GIRO_CHECK(sin, 0.51);
  GIRO_CHECK(cos, 0.51);
  GIRO_CHECK(tan, 0.51);
  GIRO_CHECK(asin, 2.5);
  GIRO_CHECK(acos, 1.5);
  GIRO_CHECK(atan, 2);
  GIRO_CHECK(sinh, 1.6);
  GIRO_CHECK(cosh, 1.5);
  GIRO_CHECK(tanh, 1.5);
  GIRO_CHECK(erf, 1.2);
  GIRO_CHECK(erfc, 0.51);
  GIRO_CHECK(cbrt, 0.51);
  GIRO_CHECK(sqrt, 0.5);
  GIRO_CHECK(rsqrt, 1.5);
  GIRO_CHECK(abs, 0);
  GIRO_CHECK(floor, 0);
  GIRO_CHECK(ceil, 0);
  GIRO_CHECK(trunc, 0);
  GIRO_CHECK(rint, 0);
}

struct pow_code {
  template <class T, class A>
  GIRO_LOOP_INLINE static auto value(A a, T b, T) {
    return p::math::pow(a, b);
  }
};
struct atan2_code {
  template <class T, class A>
  GIRO_LOOP_INLINE static auto value(A a, T b, T) {
    return p::math::atan2(a, b);
  }
};
struct fmod_code {
  template <class T, class A>
  GIRO_LOOP_INLINE static auto value(A a, T b, T) {
    return p::math::fmod(a, b);
  }
};

TEST(PointwiseMathTest, OfTwo) {
  const float special[] = {
      0.0f,      1.0f,  2.0f,       3.0f,        0.5f,  1e-45f,      1e-39f,
      HUGE_VALF, 3e38f, 1.0000001f, 16777217.0f, 0.33f, 33554432.0f, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> a, b;
  for (const float x : special) {
    for (const float y : special) {
      for (const float s : {1.0f, -1.0f}) {
        for (const float t : {1.0f, -1.0f}) {
          a.push_back(s * x);
          b.push_back(t * y);
        }
      }
    }
  }
  std::mt19937 engine(2);
  std::uniform_real_distribution<float> some(-10, 10);
  for (int i = 0; i < cases(200000); ++i) {
    a.push_back(i % 2 == 0 ? std::abs(std::bit_cast<float>(static_cast<std::uint32_t>(engine()))) : some(engine));
    b.push_back(some(engine) * (i % 5 == 0 ? 20.0f : 1.0f));
  }
  check<pow_code, 2>(
      "pow", [](double x, double y) { return std::pow(x, y); }, 0.51, a, b);
  check<atan2_code, 2>(
      "atan2", [](double x, double y) { return std::atan2(x, y); }, 3, a, b);
  check<fmod_code, 2>(
      "fmod", [](double x, double y) { return std::fmod(x, y); }, 0, a, b);
}

// Integers wrap around, and dividing them by zero gives zero.
TEST(PointwiseMathTest, Integers) {
  constexpr std::int32_t kMin = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(p::math::plus<std::int32_t>(kMin, -1), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(p::math::minus<std::int64_t>(kMin64, 1), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(p::math::times<std::int32_t>(65536, 65537), 65536);
  EXPECT_EQ(p::math::times<std::uint8_t>(16, 17), 16);
  EXPECT_EQ(p::math::negative(kMin), kMin);
  EXPECT_EQ(p::math::abs(kMin64), kMin64);
  EXPECT_EQ(p::math::quotient(kMin, -1), kMin);
  EXPECT_EQ(p::math::quotient(-7, 2), -3);
  EXPECT_EQ(p::math::quotient(5, 0), 0);
  EXPECT_EQ(p::math::remainder(kMin, -1), 0);
  EXPECT_EQ(p::math::remainder(-7, 2), -1);
  EXPECT_EQ(p::math::remainder<std::uint8_t>(5, 0), 0);
  EXPECT_TRUE(std::isnan(p::math::maximum(HUGE_VALF, std::nanf(""))));
  EXPECT_TRUE(std::isnan(p::math::minimum(std::nan(""), 1.0)));
  EXPECT_EQ(p::math::sign(-3.0f), -1.0f);
  EXPECT_EQ(p::math::sign<std::uint8_t>(3), 1);
}

}  // namespace
}  // namespace giro::test
