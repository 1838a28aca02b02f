#include "kernels/cuda/divisor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace giro {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<int>::max();

TEST(DivisorTest, DividesLikeAnInt) {
  for (std::int64_t power = 1; power <= kLargest; power *= 2) {
    for (const std::int64_t value : {power - 1, power, power + 1, power / 3, kLargest - power}) {
      if (value < 1 || value > kLargest) continue;
      const int d = static_cast<int>(value);
      const cuda::Divisor divisor(d);
      for (const std::int64_t near : {std::int64_t{0}, value, 3 * value, kLargest / value * value, kLargest / 2}) {
        for (std::int64_t i = near - 2; i <= near + 2; ++i) {
          if (i < 0 || i > kLargest) continue;
          const int n = static_cast<int>(i);
          EXPECT_EQ(n / divisor, n / d) << n << " / " << d;
          EXPECT_EQ(n % divisor, n % d) << n << " % " << d;
        }
      }
    }
  }
}

TEST(DivisorTest, MayBeZero) { EXPECT_EQ(cuda::Divisor(0).value, 0); }

}  // namespace
}  // namespace giro
