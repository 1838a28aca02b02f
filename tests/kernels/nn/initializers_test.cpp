#include <giro/kernels/nn/initializers.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "kernels/expr/instruction_sets.h"
#include "tests/support/sanitized.h"

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

struct InitializerCase {
  std::string name;
  Initializer initializer;
  double variance;
  bool uniform;
};

class InitializerTest : public ::testing::TestWithParam<InitializerCase> {};

// The bounds are five standard deviations of the estimates. The relative sampling error of a variance is at most sqrt(2
// / n), as for a normal distribution.
TEST_P(InitializerTest, HasTheDocumentedVariance) {
  const InitializerCase& c = GetParam();
  const Moments moments(c.initializer(kCount, kFans, Rng{7, RngPurpose::initial_value, 3}));
  EXPECT_NEAR(moments.mean, 0, 5 * std::sqrt(c.variance / kCount));
  EXPECT_NEAR(moments.variance, c.variance, 5 * c.variance * std::sqrt(2.0 / kCount));
}

TEST_P(InitializerTest, IsTruncated) {
  const InitializerCase& c = GetParam();
  const Moments moments(c.initializer(kCount, kFans, Rng{7, RngPurpose::initial_value, 3}));
  // A normal distribution cut off at two standard deviations keeps 0.7737 of its variance.
  const double limit = c.uniform ? std::sqrt(3 * c.variance) : 2 * std::sqrt(c.variance / 0.77374);
  EXPECT_LE(moments.largest, limit * (1 + 1e-4));
  EXPECT_GE(moments.largest, limit * 0.999);
}

TEST_P(InitializerTest, IsAFunctionOfSeedAndStream) {
  const InitializerCase& c = GetParam();
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
                         ::testing::Values(InitializerCase{"lecun_normal", lecun_normal(), 1.0 / 50, false},
                                           InitializerCase{"lecun_uniform", lecun_uniform(), 1.0 / 50, true},
                                           InitializerCase{"he_normal", he_normal(), 2.0 / 50, false},
                                           InitializerCase{"he_uniform", he_uniform(), 2.0 / 50, true},
                                           InitializerCase{"glorot_normal", glorot_normal(), 2.0 / 250, false},
                                           InitializerCase{"glorot_uniform", glorot_uniform(), 2.0 / 250, true}),
                         [](const auto& info) { return info.param.name; });

TEST(Initializers, Constants) {
  EXPECT_EQ(zeros()(3, kFans, {}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(ones()(3, kFans, {}), (std::vector<float>{1, 1, 1}));
  EXPECT_TRUE(ones()(0, kFans, {}).empty());
}

TEST(Initializers, NormalIsNotTruncated) {
  const Moments moments(normal(0.5)(kCount, kFans, Rng{1, RngPurpose::initial_value, 0}));
  EXPECT_NEAR(moments.mean, 0, 5 * 0.5 / std::sqrt(kCount));
  EXPECT_NEAR(moments.variance, 0.25, 5 * 0.25 * std::sqrt(2.0 / kCount));
  EXPECT_GT(moments.largest, 3.5 * 0.5);
}

// Box-Muller with the C library's functions.
double standard_normal(const PhiloxBlock& block, int word) {
  const double u = (block.word[word] + 1.0) / 4294967296.0, v = block.word[word + 1] / 4294967296.0;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}
double within_two(const Rng& rng, std::uint64_t i) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const PhiloxBlock block = Rng{rng.seed, rng.purpose, rng.stream + (attempt << 32)}.block(i);
    for (const int word : {0, 2}) {
      if (const double z = standard_normal(block, word); std::abs(z) <= 2) return z;
    }
  }
}

TEST(Initializers, NormalsMatchTheFormulaBitwise) {
  const Rng rng{11, RngPurpose::initial_value, 5};
  const std::int64_t count = test::kSanitized ? 10'000 : 1'000'001;
  std::vector<float> plain, truncated;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    plain.push_back(static_cast<float>(0.02 * standard_normal(rng.block(i), 0)));
    truncated.push_back(static_cast<float>(std::sqrt(1.0 / 50) / 0.87962566103423978 * within_two(rng, i)));
  }
  const expr::InstructionSet best = expr::instruction_set();
  for (const expr::InstructionSet set : {expr::kBaseline, expr::kAvx2, expr::kAvx512}) {
    if (!expr::use_instruction_set(set)) continue;
    EXPECT_EQ(normal(0.02)(count, kFans, rng), plain) << set;
    EXPECT_EQ(lecun_normal()(count, kFans, rng), truncated) << set;
  }
  expr::use_instruction_set(best);
}

// Compared as bits, so that -0 differs from 0.
TEST(Initializers, SmallNormalsMatchTheFormula) {
  const Rng rng{12, RngPurpose::initial_value, 5};
  for (const std::int64_t count : {100, 10'000}) {  // by one thread, and by several
    for (const double stddev : {0.0, 1e-45, 1e-39, 2e-38, 1e-300}) {
      std::vector<std::uint32_t> bits, expected;
      for (const float value : normal(stddev)(count, kFans, rng)) bits.push_back(std::bit_cast<std::uint32_t>(value));
      for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
        const auto value = static_cast<float>(stddev * standard_normal(rng.block(i), 0));
        expected.push_back(std::bit_cast<std::uint32_t>(value));
      }
      EXPECT_EQ(bits, expected) << count << " of " << stddev;
    }
  }
}

}  // namespace
}  // namespace giro::nn
