#include <giro/kernels/nn/initializers.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace giro::nn {
namespace {

constexpr std::int64_t kCount = 200'000;
constexpr Fans kFans{50, 200};

struct Moments {
  double mean = 0, variance = 0, largest = 0;

  explicit Moments(const std::vector<float>& values) {
    const auto n = static_cast<double>(values.size());
    for (const float x : values) mean += static_cast<double>(x) / n;
    for (const float x : values) {
      variance += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean) / n;
      largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
  }
};

struct Case {
  std::string name;
  Initializer initializer;
  double variance;
  bool uniform;
};

class InitializerTest : public ::testing::TestWithParam<Case> {};

// The bounds are five standard deviations of the estimates. The relative sampling error of a variance is at most that
// of a normal distribution, sqrt(2 / n).
TEST_P(InitializerTest, HasTheVarianceItsNameSays) {
  const Case& c = GetParam();
  const Moments moments(c.initializer(kCount, kFans, Rng{7, RngPurpose::initial_value, 3}));
  EXPECT_NEAR(moments.mean, 0, 5 * std::sqrt(c.variance / kCount));
  EXPECT_NEAR(moments.variance, c.variance, 5 * c.variance * std::sqrt(2.0 / kCount));
}

TEST_P(InitializerTest, IsCutOff) {
  const Case& c = GetParam();
  const Moments moments(c.initializer(kCount, kFans, Rng{7, RngPurpose::initial_value, 3}));
  // A normal distribution cut off at two standard deviations keeps 0.7737 of its variance.
  const double limit = c.uniform ? std::sqrt(3 * c.variance) : 2 * std::sqrt(c.variance / 0.77374);
  EXPECT_LE(moments.largest, limit * (1 + 1e-4));
  EXPECT_GE(moments.largest, limit * 0.999);
}

TEST_P(InitializerTest, IsAFunctionOfSeedAndStream) {
  const Case& c = GetParam();
  const std::vector<float> values = c.initializer(1'000, kFans, Rng{7, RngPurpose::initial_value, 3});
  EXPECT_EQ(values, c.initializer(1'000, kFans, Rng{7, RngPurpose::initial_value, 3}));
  EXPECT_NE(values, c.initializer(1'000, kFans, Rng{8, RngPurpose::initial_value, 3}));
  EXPECT_NE(values, c.initializer(1'000, kFans, Rng{7, RngPurpose::initial_value, 4}));
  // Value i does not depend on the number of values.
  const std::vector<float> fewer = c.initializer(10, kFans, Rng{7, RngPurpose::initial_value, 3});
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), values.begin()));
}

TEST_P(InitializerTest, HasNoRepetitions) {
  std::vector<float> values = GetParam().initializer(1'000, kFans, Rng{7, RngPurpose::initial_value, 3});
  std::sort(values.begin(), values.end());
  EXPECT_GE(std::unique(values.begin(), values.end()) - values.begin(), 998);
}

INSTANTIATE_TEST_SUITE_P(All, InitializerTest,
                         ::testing::Values(Case{"lecun_normal", lecun_normal(), 1.0 / 50, false},
                                           Case{"lecun_uniform", lecun_uniform(), 1.0 / 50, true},
                                           Case{"he_normal", he_normal(), 2.0 / 50, false},
                                           Case{"he_uniform", he_uniform(), 2.0 / 50, true},
                                           Case{"glorot_normal", glorot_normal(), 2.0 / 250, false},
                                           Case{"glorot_uniform", glorot_uniform(), 2.0 / 250, true}),
                         [](const auto& info) { return info.param.name; });

TEST(Initializers, Constants) {
  EXPECT_EQ(zeros()(3, kFans, {}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(ones()(3, kFans, {}), (std::vector<float>{1, 1, 1}));
  EXPECT_TRUE(ones()(0, kFans, {}).empty());
}

TEST(Initializers, NormalIsNotCutOff) {
  const Moments moments(normal(0.5)(kCount, kFans, Rng{1, RngPurpose::initial_value, 0}));
  EXPECT_NEAR(moments.mean, 0, 5 * 0.5 / std::sqrt(kCount));
  EXPECT_NEAR(moments.variance, 0.25, 5 * 0.25 * std::sqrt(2.0 / kCount));
  EXPECT_GT(moments.largest, 3.5 * 0.5);
}

}  // namespace
}  // namespace giro::nn
