#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <giro/loop/data/dataset.h>
#include <giro/runtime/files/archive.h>

#include "tests/support/expect_error.h"
#include "tests/support/fake_partitioner.h"

namespace giro {
namespace {

using test::expect_error;
class SampleTest : public testing::Test {
 protected:
  using Rows = std::vector<std::int64_t>;

  static constexpr ErrorCode kInvalid = ErrorCode::invalid_argument;

  static Dataset rows(std::int64_t count) {
    Rows numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    return Dataset({{"row", numbers}});
  }

  // The rows of the batches from `first` on.
  static Rows drawn(const Dataset& dataset, std::int64_t first = 0) {
    Rows all;
    for (auto it = dataset.begin_at(first); it != dataset.end(); ++it) {
      const nn::Var row = (*it)["row"];
      all.insert(all.end(), row.data<std::int64_t>(), row.data<std::int64_t>() + row.shape()[0]);
    }
    return all;
  }
};

// In 100,000 draws, the counts differ from those expected by the weights by at most five standard deviations.
TEST_F(SampleTest, DrawsInProportionToTheWeights) {
  const std::vector<double> weights{1, 0, 0.5, 3, 0, 0.125, 0};
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::int64_t count = static_cast<std::int64_t>(weights.size()), draws = 100'000 / count * count;
  std::vector<std::int64_t> counts(weights.size());
  for (const std::int64_t row : drawn(rows(count).sample(weights, 3).repeat(draws / count).batch(count))) {
    ++counts[static_cast<std::size_t>(row)];
  }
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), draws);
  for (std::size_t row = 0; row < weights.size(); ++row) {
    const double share = weights[row] / sum, expected = share * static_cast<double>(draws);
    EXPECT_LE(std::abs(static_cast<double>(counts[row]) - expected), 5 * std::sqrt(expected * (1 - share))) << row;
  }
}

TEST_F(SampleTest, DrawIsAFunctionOfSeedEpochAndPosition) {
  std::vector<double> weights;
  for (int row = 0; row < 50; ++row) weights.push_back(1 + row % 7);
  const auto dataset = [&](std::uint64_t seed) { return rows(50).sample(weights, seed).repeat(4).batch(20); };
  const Rows all = drawn(dataset(1));
  ASSERT_EQ(all.size(), 200u);
  EXPECT_EQ(drawn(dataset(1)), all);
  EXPECT_EQ(drawn(dataset(1).prefetch(3)), all);
  EXPECT_NE(drawn(dataset(2)), all);
  EXPECT_NE(Rows(all.begin(), all.begin() + 50), Rows(all.begin() + 50, all.begin() + 100)) << "each epoch is its own";
  EXPECT_EQ(drawn(dataset(1), 7), Rows(all.begin() + 140, all.end()));
  EXPECT_EQ(drawn(dataset(1).skip(3), 3), Rows(all.begin() + 60, all.end()));
  EXPECT_EQ(dataset(1).indices(2), Rows(all.begin() + 40, all.begin() + 60));
  EXPECT_EQ(drawn(rows(50).repeat(4).sample(weights, 1).batch(20)), all) << "in either order";

  const auto part = [&](int rank) {
    return drawn(dataset(1).partition(std::make_shared<test::FakePartitioner>(rank, 2)));
  };
  const Rows first = part(0), second = part(1);
  Rows together;
  for (std::ptrdiff_t batch = 0; batch < 10; ++batch) {
    together.insert(together.end(), first.begin() + 10 * batch, first.begin() + 10 * (batch + 1));
    together.insert(together.end(), second.begin() + 10 * batch, second.begin() + 10 * (batch + 1));
  }
  EXPECT_EQ(together, all);
}

TEST_F(SampleTest, OneRowWithAWeightIsAlwaysDrawn) {
  for (const double weight : {1e-300, 5e-324, 1.0, 1e300}) {
    EXPECT_EQ(drawn(rows(3).sample({0, weight, 0}, 1).batch(3)), (Rows{1, 1, 1})) << weight;
  }
}

TEST_F(SampleTest, ResumedRunMustHaveTheSameWeights) {
  const auto read = [](const Dataset& saved, const Dataset& other) {
    Archive archive;
    saved.persist(archive);
    Archive reading = Archive::read(archive.text());
    other.persist(reading);
    EXPECT_TRUE(reading.report().empty());
  };
  const Dataset plain = rows(3), sampled = rows(3).sample({1, 2, 3}, 1);
  read(plain, plain);
  read(sampled, rows(3).sample({1, 2, 3}, 1));
  expect_error(kInvalid, {"weights"}, [&] { read(sampled, rows(3).sample({1, 2, 4}, 1)); });
  expect_error(kInvalid, {"seed: found 2, expected 1"}, [&] { read(sampled, rows(3).sample({1, 2, 3}, 2)); });
  expect_error(kInvalid, {"weights: found none"}, [&] { read(sampled, plain); });
  expect_error(kInvalid, {"expected none"}, [&] { read(plain, sampled); });
}

TEST_F(SampleTest, RejectsInvalidWeights) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_error(kInvalid, {"2 weights", "3 rows"}, [&] { rows(3).sample({1, 2}, 0); });
  expect_error(kInvalid, {"row 1 is -1"}, [&] { rows(3).sample({1, -1, 1}, 0); });
  expect_error(kInvalid, {"row 2 is nan"}, [&] { rows(3).sample({1, 1, std::nan("")}, 0); });
  expect_error(kInvalid, {"row 0 is inf"}, [&] { rows(3).sample({kInfinity, 1, 1}, 0); });
  expect_error(kInvalid, {"sum of the weights is 0"}, [&] { rows(3).sample({0, 0, 0}, 0); });
  expect_error(kInvalid, {"sum of the weights is inf"}, [&] { rows(3).sample({1e308, 1e308, 1e308}, 0); });
  const std::vector<double> ones(3, 1);
  expect_error(kInvalid, {"sample", "before batch"}, [&] { rows(3).batch(1).sample(ones, 0); });
  expect_error(kInvalid, {"already shuffled"}, [&] { rows(3).shuffle(0).sample(ones, 0); });
  expect_error(kInvalid, {"already sampled"}, [&] { rows(3).sample(ones, 0).sample(ones, 0); });
  expect_error(kInvalid, {"shuffle", "sample"}, [&] { rows(3).sample(ones, 0).shuffle(0); });
  expect_error(ErrorCode::unsupported, {"to", "sample"}, [&] { rows(3).sample(ones, 0).batch(1).to(Device::cpu()); });
}

}  // namespace
}  // namespace giro
