#include "tests/distributed/ranks/naive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/distributed/ranks/ranks.h"
#include "tests/support/dtypes.h"

namespace giro::test {
std::vector<double> input(DType dtype, std::int64_t count, int rank, unsigned seed) {
  std::mt19937 random(seed * 1000 + static_cast<unsigned>(rank));
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) {
    const double unit = std::uniform_real_distribution<>(-1, 1)(random);
    if (is_floating(dtype)) value = rounded(dtype, unit);
    if (dtype == DType::i32) value = std::floor(unit * (1 << 28));
    if (dtype == DType::i64) value = std::floor(unit * 0x1p40);
    if (dtype == DType::u8) value = std::floor((unit + 1) * 30);
    if (dtype == DType::boolean) value = unit > 0.5;
  }
  return values;
}

Expected reduced(DType dtype, std::int64_t count, Reduction reduction, int ranks, unsigned seed) {
  Expected expected{input(dtype, count, 0, seed), {}};
  std::vector<double> magnitudes;
  for (const double value : expected.values) magnitudes.push_back(std::abs(value));
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<double> other = input(dtype, count, rank, seed);
    for (std::size_t i = 0; i < other.size(); ++i) {
      double& value = expected.values[i];
      if (reduction == Reduction::max) value = std::max(value, other[i]);
      if (reduction == Reduction::min) value = std::min(value, other[i]);
      if (reduction == Reduction::sum || reduction == Reduction::mean) value += other[i];
      magnitudes[i] += std::abs(other[i]);
    }
  }
  const bool is_rounded = reduction == Reduction::sum || reduction == Reduction::mean;
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    if (reduction == Reduction::mean) expected.values[i] /= ranks;
    const double scale = reduction == Reduction::mean ? 1.0 / ranks : 1.0;
    // ranks - 1 additions, and a division or, in NCCL, a multiplication by the rounded reciprocal; the smallest f16
    // numbers have fewer digits.
    const double tiny = dtype == DType::f16 ? 0x1p-24 : 0;
    const int roundings = reduction == Reduction::mean ? ranks + 1 : ranks;
    expected.bounds.push_back(is_rounded ? roundings * (unit_roundoff(dtype) * magnitudes[i] * scale * 1.01 + tiny)
                                         : 0);
  }
  return expected;
}

void expect_reduced(const std::vector<double>& found, const Expected& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.values.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_LE(std::abs(found[i] - expected.values[i]), expected.bounds[i])
        << what << ", element " << i << ": " << found[i] << ", expected " << expected.values[i];
  }
}

}  // namespace giro::test
