#include <giro/runtime/float16.h>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace giro {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The value of `bits` by definition, in a format with these numbers of exponent and mantissa bits.
double decode(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? kNaN : sign * kInfinity;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

template <class T>
struct Format;
template <>
struct Format<BFloat16> {
  static constexpr int kExponentBits = 8, kMantissaBits = 7;
};
template <>
struct Format<Float16> {
  static constexpr int kExponentBits = 5, kMantissaBits = 10;
};

template <class T>
class Float16Test : public testing::Test {
 protected:
  static T from_bits(std::uint16_t bits) {
    T value;
    value.bits = bits;
    return value;
  }
  static double decoded(int bits) {
    return decode(static_cast<std::uint16_t>(bits), Format<T>::kExponentBits, Format<T>::kMantissaBits);
  }
  static constexpr int kInfinityBits = ((1 << Format<T>::kExponentBits) - 1) << Format<T>::kMantissaBits;
};
using Formats = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Float16Test, Formats);

TYPED_TEST(Float16Test, EveryValueRoundTripsThroughFloat) {
  for (int bits = 0; bits <= 0xffff; ++bits) {
    const TypeParam value = this->from_bits(static_cast<std::uint16_t>(bits));
    const float widened = value;
    if (std::isnan(this->decoded(bits))) {
      ASSERT_TRUE(std::isnan(widened)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(widened)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(widened), this->decoded(bits)) << bits;
      ASSERT_EQ(TypeParam(widened).bits, bits);
    }
  }
}

// Halfway between two values rounds to the even one; a float on either side rounds to the nearer one.
TYPED_TEST(Float16Test, RoundsToNearestEven) {
  for (int bits = 0; bits + 1 < this->kInfinityBits; ++bits) {
    const auto halfway = static_cast<float>((this->decoded(bits) + this->decoded(bits + 1)) / 2);
    const int even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(TypeParam(halfway).bits, even);
    ASSERT_EQ(TypeParam(-halfway).bits, even | 0x8000);
    ASSERT_EQ(TypeParam(std::nextafterf(halfway, 0.f)).bits, bits);
    ASSERT_EQ(TypeParam(std::nextafterf(halfway, kInfinity)).bits, bits + 1);
  }
}

TYPED_TEST(Float16Test, BeyondTheLargestIsInfinity) {
  const int largest = this->kInfinityBits - 1;
  // Half a unit in the last place above the largest value, halfway to where the next one would be.
  const double limit = this->decoded(largest) + (this->decoded(largest) - this->decoded(largest - 1)) / 2;
  EXPECT_EQ(TypeParam(static_cast<float>(limit)).bits, this->kInfinityBits);
  EXPECT_EQ(TypeParam(std::nextafterf(static_cast<float>(limit), 0.f)).bits, largest);
  EXPECT_EQ(TypeParam(kInfinity).bits, this->kInfinityBits);
  EXPECT_EQ(TypeParam(-kInfinity).bits, this->kInfinityBits | 0x8000);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits, this->kInfinityBits);
}

TYPED_TEST(Float16Test, KeepsTheSignOfZeroAndOfUnderflow) {
  EXPECT_EQ(TypeParam(0.f).bits, 0);
  EXPECT_EQ(TypeParam(-0.f).bits, 0x8000);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
}

TYPED_TEST(Float16Test, NaNStaysNaNWhateverItsPayload) {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xffffffffu, 0xff800001u}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(bits))))) << bits;
  }
}

}  // namespace
}  // namespace giro
