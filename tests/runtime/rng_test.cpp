#include <giro/runtime/rng.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace giro {
namespace {

void expect_words(const PhiloxBlock& block, std::vector<std::uint32_t> expected) {
  EXPECT_EQ(std::vector<std::uint32_t>(block.word, block.word + 4), expected);
}

std::vector<std::uint64_t> permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream) {
  const KeyedPermutation permute(size, Rng{seed, RngPurpose::shuffle, stream});
  std::vector<std::uint64_t> values(size);
  for (std::uint64_t i = 0; i < size; ++i) values[i] = permute(i);
  return values;
}

// Random123's kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, GivesThePublishedKnownAnswers) {
  expect_words(philox(0, 0, 0), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect_words(philox(0xffffffffffffffff, 0xffffffffffffffff, 0xffffffffffffffff),
               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_words(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Rng, NumbersAreWordsOfConsecutiveBlocks) {
  const Rng rng{7, RngPurpose::shuffle, 9};
  for (std::uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(rng.bits(i), philox(7, i / 4, (std::uint64_t{1} << 56) + 9).word[i % 4]);
  }
}

TEST(Rng, StreamsSeedsAndPurposesDiffer) {
  const auto first = [](std::uint64_t seed, RngPurpose purpose, std::uint64_t stream) {
    return Rng{seed, purpose, stream}.bits(0);
  };
  const std::set<std::uint32_t> all{first(0, RngPurpose::shuffle, 0), first(1, RngPurpose::shuffle, 0),
                                    first(0, RngPurpose::shuffle, 1), first(0, RngPurpose::initial_value, 0),
                                    first(0, RngPurpose::application, 0)};
  EXPECT_EQ(all.size(), 5u);
}

// One seed serves every purpose, such as initial values and shuffles: they share no block, for any leaf and epoch.
TEST(Rng, PurposesShareNoBlocks) {
  constexpr std::uint64_t kStreams = 64, kBlocks = 16, kPurposes = 5;
  std::set<std::array<std::uint32_t, 4>> blocks;
  for (const RngPurpose purpose :
       {RngPurpose::initial_value, RngPurpose::shuffle, RngPurpose::draw, RngPurpose::key, RngPurpose::application}) {
    for (std::uint64_t stream = 0; stream < kStreams; ++stream) {
      for (std::uint64_t i = 0; i < kBlocks; ++i) {
        const PhiloxBlock block = Rng{42, purpose, stream}.block(i);
        blocks.insert({block.word[0], block.word[1], block.word[2], block.word[3]});
      }
    }
  }
  EXPECT_EQ(blocks.size(), kPurposes * kStreams * kBlocks);
  // The bits that retries of a leaf add to its stream do not reach into another purpose.
  const auto words = [](const PhiloxBlock& block) { return std::vector<std::uint32_t>(block.word, block.word + 4); };
  EXPECT_NE(words(Rng{42, RngPurpose::initial_value, (std::uint64_t{1} << 56) + 5}.block(0)),
            words(Rng{42, RngPurpose::shuffle, 5}.block(0)));
}

TEST(Rng, UniformCoversTheUnitInterval) {
  const Rng rng{123, RngPurpose::application, 4};
  constexpr int kCount = 100'000, kBins = 10;
  std::vector<int> bins(kBins);
  double sum = 0, sum_of_squares = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const float u = rng.uniform(i);
    ASSERT_GE(u, 0.f);
    ASSERT_LT(u, 1.f);
    ASSERT_EQ(u * 16777216.f, std::floor(u * 16777216.f));
    sum += u;
    sum_of_squares += static_cast<double>(u) * u;
    ++bins[static_cast<std::size_t>(u * kBins)];
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.5, 0.005);  // 5 standard errors
  EXPECT_NEAR(sum_of_squares / kCount - mean * mean, 1.0 / 12, 0.0015);
  for (const int bin : bins) EXPECT_NEAR(bin, kCount / kBins, 500);
}

TEST(KeyedPermutation, IsABijection) {
  for (const std::uint64_t size :
       {1,  2,  3,   4,   5,   7,    8,    9,    13,   15,   16,   17,   31,     32,     33,     63,    64,
        65, 97, 255, 256, 257, 1021, 1023, 1024, 1025, 4095, 4096, 4097, 60'000, 65'535, 65'536, 65'537}) {
    for (const std::uint64_t seed : {0, 1, 42}) {
      std::vector<bool> hit(size);
      for (const std::uint64_t value : permutation(size, seed, 3)) {
        ASSERT_LT(value, size);
        ASSERT_FALSE(hit[value]) << "size " << size << ", seed " << seed << ": " << value << " twice";
        hit[value] = true;
      }
    }
  }
}

TEST(KeyedPermutation, StaysInRangeForLargeSizes) {
  for (const std::uint64_t size : {(std::uint64_t{1} << 32) + 1, (std::uint64_t{1} << 62) + 1, ~std::uint64_t{0}}) {
    const KeyedPermutation permute(size, Rng{5, RngPurpose::shuffle, 0});
    for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_LT(permute(size - 1 - i), size);
  }
}

TEST(KeyedPermutation, DependsOnSeedAndStream) {
  const auto base = permutation(1000, 1, 1);
  EXPECT_EQ(permutation(1000, 1, 1), base);
  EXPECT_NE(permutation(1000, 2, 1), base);
  EXPECT_NE(permutation(1000, 1, 2), base);
}

// The bound that a chi-squared variable exceeds as rarely as a normal variable exceeds `z` (Wilson and Hilferty, 1931).
double chi_squared_bound(double degrees, double z) {
  const double share = 2 / (9 * degrees);
  return degrees * std::pow(1 - share + z * std::sqrt(share), 3);
}

bool is_odd(std::vector<std::uint64_t> values) {
  bool odd = false;
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    while (values[i] != i) {
      std::swap(values[i], values[values[i]]);
      odd = !odd;
    }
  }
  return odd;
}

// The epochs of one seed, as a data set uses them: with few rows, all orders are equally likely.
TEST(KeyedPermutation, AllOrdersOfSmallSizesAreEquallyLikely) {
  constexpr std::uint64_t kOfEach = 20;
  std::uint64_t orders = 1;
  for (std::uint64_t size = 2; size <= 7; ++size) {
    orders *= size;
    std::map<std::vector<std::uint64_t>, int> counts;
    for (std::uint64_t epoch = 0; epoch < kOfEach * orders; ++epoch) ++counts[permutation(size, 17, epoch)];
    double chi_squared = static_cast<double>(kOfEach * (orders - counts.size()));  // of orders that never occurred
    for (const auto& [order, count] : counts) chi_squared += (count - 20.0) * (count - 20.0) / 20.0;
    // One in 30,000 fair generators fails here.
    EXPECT_LT(chi_squared, chi_squared_bound(static_cast<double>(orders - 1), 4)) << size;
  }
}

// All pairs of places are equally likely for two rows, also for sizes just above those drawn with Fisher-Yates.
TEST(KeyedPermutation, PairsOfPositionsAreEquallyLikely) {
  for (const std::uint64_t size : {6, 16, 17, 20, 31, 32}) {
    const double pairs = static_cast<double>(size * (size - 1));
    constexpr std::uint64_t kKeys = 20'000;
    for (const auto& [a, b] : {std::pair{0, 1}, {1, 3}, {2, 5}}) {
      std::vector<int> counts(size * size);
      for (std::uint64_t key = 0; key < kKeys; ++key) {
        const KeyedPermutation permute(size, Rng{key, RngPurpose::shuffle, 3});
        ++counts[permute(static_cast<std::uint64_t>(a)) * size + permute(static_cast<std::uint64_t>(b))];
      }
      const double expected = kKeys / pairs;
      double chi_squared = 0;
      for (std::uint64_t i = 0; i < counts.size(); ++i) {
        if (i / size != i % size) chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
      }
      EXPECT_LT(chi_squared, chi_squared_bound(pairs - 1, 4)) << size << ": " << a << ", " << b;
    }
  }
}

// Half of all permutations are odd, also for a power of four, where no index is permuted twice.
TEST(KeyedPermutation, IsOddForHalfOfTheKeys) {
  constexpr std::uint64_t kKeys = 4000;
  for (const std::uint64_t size : {2, 3, 15, 16, 17, 63, 64, 65, 256, 1024}) {
    int odd = 0;
    for (std::uint64_t key = 0; key < kKeys; ++key) odd += is_odd(permutation(size, 5, key));
    EXPECT_NEAR(odd, kKeys / 2.0, 4 * std::sqrt(kKeys / 4.0)) << size;
  }
}

// Over many keys, every value occurs about equally often at every index, and neighbours do not stay together.
TEST(KeyedPermutation, MixesWell) {
  constexpr std::uint64_t kSize = 10, kKeys = 20'000;
  std::vector<std::vector<int>> counts(kSize, std::vector<int>(kSize));
  int adjacent = 0;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const auto values = permutation(kSize, key, 0);
    for (std::uint64_t i = 0; i < kSize; ++i) ++counts[i][values[i]];
    for (std::uint64_t i = 1; i < kSize; ++i) adjacent += values[i] == values[i - 1] + 1;
  }
  const double expected = static_cast<double>(kKeys) / kSize;
  double chi_squared = 0;
  for (const auto& row : counts) {
    for (const int count : row) chi_squared += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_squared, 150) << "81 degrees of freedom: mean 81, standard deviation 13";
  // In a random permutation of n values, each of the n - 1 pairs is consecutive with probability 1 / n.
  EXPECT_NEAR(adjacent / static_cast<double>(kKeys), 0.9, 0.05);
}

}  // namespace
}  // namespace giro
