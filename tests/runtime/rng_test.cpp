#include <giro/runtime/rng.h>

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace giro {
namespace {

void expect_words(const PhiloxBlock& block, std::vector<std::uint32_t> expected) {
  EXPECT_EQ(std::vector<std::uint32_t>(block.word, block.word + 4), expected);
}

std::vector<std::uint64_t> permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream) {
  const KeyedPermutation permute(size, seed, stream);
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
  const Rng rng{7, 9};
  for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(rng.bits(i), philox(7, i / 4, 9).word[i % 4]);
}

TEST(Rng, StreamsAndSeedsDiffer) {
  EXPECT_NE((Rng{1, 0}.bits(0)), (Rng{0, 0}.bits(0)));
  EXPECT_NE((Rng{0, 1}.bits(0)), (Rng{0, 0}.bits(0)));
  EXPECT_NE((Rng{0, 1}.bits(0)), (Rng{1, 0}.bits(0)));
}

TEST(Rng, UniformFillsTheUnitIntervalEvenly) {
  const Rng rng{123, 4};
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

TEST(KeyedPermutation, StaysInsideSizesTooLargeToEnumerate) {
  for (const std::uint64_t size : {(std::uint64_t{1} << 32) + 1, (std::uint64_t{1} << 62) + 1, ~std::uint64_t{0}}) {
    const KeyedPermutation permute(size, 5, 0);
    for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_LT(permute(size - 1 - i), size);
  }
}

TEST(KeyedPermutation, DependsOnSeedAndStream) {
  const auto base = permutation(1000, 1, 1);
  EXPECT_EQ(permutation(1000, 1, 1), base);
  EXPECT_NE(permutation(1000, 2, 1), base);
  EXPECT_NE(permutation(1000, 1, 2), base);
}

// Over many keys, every value turns up about equally often at every index, and neighbours do not stay
// together.
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
  // In a random permutation of n, n - 1 pairs succeed each other with probability 1 / n.
  EXPECT_NEAR(adjacent / static_cast<double>(kKeys), 0.9, 0.05);
}

}  // namespace
}  // namespace giro
