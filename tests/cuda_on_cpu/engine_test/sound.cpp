// Tests that the kernels of sound.cu give the right results without a report, with each seed.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/engine_test/launch_kernel.h"

namespace giro::simt {
namespace {

constexpr unsigned int kThreads = 64;
__extension__ typedef __int128 Wide;

template <class... Arguments>
void expect_sound(const char* name, unsigned int blocks, std::size_t dynamic_shared_bytes, Arguments... arguments) {
  const Outcome outcome = run(kernel_named(name), {blocks}, {kThreads}, dynamic_shared_bytes, arguments...);
  EXPECT_TRUE(outcome) << outcome.message;
}

template <class T = float>
std::vector<T> counting(std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{0});
  return values;
}

TEST(Sound, constants) {
  DeviceArray<float> y(kThreads);
  expect_sound("weighted", 1, 0, y.data());
  for (unsigned int i = 0; i < kThreads; ++i) EXPECT_EQ(y.values()[i], static_cast<float>(i % 4 + 1));
}

TEST(Sound, shared_memory_between_barriers) {
  Seeds::each([] {
    DeviceArray<float> y(kThreads), x(counting(kThreads));
    expect_sound("reverse_through_shared", 1, kThreads * sizeof(float), y.data(), x.data());
    for (unsigned int i = 0; i < kThreads; ++i) EXPECT_EQ(y.values()[i], static_cast<float>(kThreads - 1 - i));
    expect_sound("neighbours_through_syncwarp", 1, 0, y.data(), x.data());
    for (unsigned int i = 0; i < kThreads; ++i) EXPECT_EQ(y.values()[i], static_cast<float>(i ^ 3));
  });
}

TEST(Sound, last_block) {
  Seeds::each([] {
    constexpr unsigned int kBlocks = 5;
    DeviceArray<float> y(1), partial(kBlocks), x(counting(kBlocks * kThreads));
    DeviceArray<unsigned int> tickets(std::vector<unsigned int>{0});
    for (int launches = 0; launches < 2; ++launches) {
      expect_sound("last_block_sums", kBlocks, 0, y.data(), partial.data(), x.data(), tickets.data());
      EXPECT_EQ(y.values()[0], kBlocks * kThreads * (kBlocks * kThreads - 1) / 2.0f);
      EXPECT_EQ(tickets.values()[0], 0u);
    }
  });
}

TEST(Sound, block_scan) {
  Seeds::each([] {
    DeviceArray<int> y(kThreads), x(counting<int>(kThreads));
    expect_sound("scan_block", 1, 0, y.data(), x.data());
    for (int i = 0; i < static_cast<int>(kThreads); ++i) {
      EXPECT_EQ(y.values()[static_cast<std::size_t>(i)], i * (i + 1) / 2);
    }
  });
}

TEST(Sound, warp_operations) {
  Seeds::each([] {
    DeviceArray<unsigned int> y(kThreads * 12);
    expect_sound("every_warp_operation", 1, 0, y.data());
    const std::vector<unsigned int> values = y.values();
    unsigned int thirds = 0;
    for (unsigned int lane = 0; lane < 32; lane += 3) thirds |= 1u << lane;
    for (unsigned int i = 0; i < kThreads; ++i) {
      const unsigned int lane = i % 32;
      const unsigned int expected[12] = {lane < 3 ? lane : lane - 3,
                                         lane % 8 < 5 ? lane + 3 : lane,
                                         lane ^ 5,
                                         lane / 16 * 16 + 9,
                                         thirds,
                                         2,
                                         496,
                                         31,
                                         0xfu << (lane / 4 * 4),
                                         1,
                                         10,
                                         1};
      for (unsigned int k = 0; k < 12; ++k) EXPECT_EQ(values[i * 12 + k], expected[k]) << "thread " << i << " " << k;
    }
  });
}

TEST(Sound, atomics) {
  Seeds::each([] {
    DeviceArray<int> y(std::vector<int>(5 + 64 + kThreads, 0));
    DeviceArray<float> sums(std::vector<float>{1.0f});
    expect_sound("atomics", 1, 0, y.data(), sums.data());
    const std::vector<int> values = y.values();
    EXPECT_EQ(values[0], 63 * 64 / 2);
    EXPECT_EQ(values[1], 63);
    EXPECT_EQ(values[2], -63);
    EXPECT_EQ(values[3], 255);
    EXPECT_EQ(values[4], 0);
    EXPECT_EQ(values[5], 64);
    EXPECT_EQ(sums.values()[0], 33.0f);
  });
}

TEST(Sound, flag_between_warps) {
  Seeds::each([] {
    DeviceArray<float> y(2);
    DeviceArray<int> flag(std::vector<int>{0});
    expect_sound("flag_between_warps", 1, 0, y.data(), flag.data());
    EXPECT_EQ(y.values()[1], 5.0f);
  });
}

TEST(Sound, published_by_one_lane) {
  Seeds::each([] {
    std::vector<float> x(32);
    std::iota(x.begin(), x.end(), 1.0f);
    DeviceArray<float> y(kThreads), from(x);
    DeviceArray<int> flag(std::vector<int>{0});
    expect_sound("published_by_one_lane", 1, 0, y.data(), from.data(), flag.data());
    EXPECT_EQ(y.values()[kThreads - 1], 32.0f);
  });
}

TEST(Sound, told_by_another) {
  Seeds::each([] {
    DeviceArray<float> y(2);
    DeviceArray<int> tickets(std::vector<int>{0}), flags(std::vector<int>(3));
    expect_sound("told_by_another", 3, 0, y.data(), tickets.data(), flags.data());
    EXPECT_EQ(y.values()[1], 7.0f);
  });
}

TEST(Sound, published_for_others) {
  Seeds::each([] {
    std::vector<float> x(kThreads);
    std::iota(x.begin(), x.end(), 1.0f);
    DeviceArray<float> y(129), half(33), from(x);
    DeviceArray<int> tickets(std::vector<int>{0}), others(std::vector<int>{0});
    expect_sound("fences_around_barriers", 2, 0, y.data(), from.data(), tickets.data());
    EXPECT_EQ(y.values()[128], 1.0f + 64.0f);
    expect_sound("published_for_half_a_warp", 2, 0, half.data(), from.data(), others.data());
    EXPECT_EQ(half.values()[32], 16.0f + 16.0f);
  });
}

TEST(Sound, local_array) {
  std::vector<int> digits(16);
  for (int i = 0; i < 16; ++i) digits[static_cast<std::size_t>(i)] = (i * 7 + 3) % 16;
  DeviceArray<int> y(kThreads), x(digits);
  expect_sound("local_array", 1, 0, y.data(), x.data());
  for (unsigned int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(y.values()[i], digits[static_cast<std::size_t>(digits[i % 16])]);
  }
}

// Compared with results in double. nvcc's functions are accurate to a few units in the last place.
TEST(Sound, math) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-4, 4);
  std::vector<float> x(kThreads);
  for (float& value : x) value = uniform(random);
  DeviceArray<float> y(kThreads * 16), in(x);
  expect_sound("math", 1, 0, y.data(), in.data());
  for (unsigned int i = 0; i < kThreads; ++i) {
    const double a = x[i], b = std::fabs(x[i]), shifted = std::fabs(x[i]) + 1e-3f;
    const double sine = x[i] * 100.0f, cosine = x[i] * 1e6f, tripled = x[i] * 3.0f;
    const double expected[16] = {std::exp(a),
                                 std::log(shifted),
                                 std::tanh(a),
                                 std::pow(b, static_cast<double>(1.7f)),
                                 std::sqrt(b),
                                 1 / std::sqrt(shifted),
                                 std::sin(sine),
                                 std::cos(cosine),
                                 std::erf(a),
                                 1 / (x[i] + 10.0f),
                                 std::log1p(b),
                                 std::expm1(a),
                                 std::pow(b, 2.3),
                                 std::exp(a) + std::log(b + 1),
                                 std::fmod(a, static_cast<double>(0.7f)),
                                 std::rint(tripled) + std::trunc(tripled) + std::floor(tripled) + std::ceil(tripled)};
    for (unsigned int k = 0; k < 16; ++k) {
      EXPECT_NEAR(y.values()[i * 16 + k], expected[k], 6e-7 * std::fabs(expected[k]) + 6e-7)
          << "function " << k << " of " << a;
    }
  }
}

TEST(Sound, integers) {
  std::mt19937_64 random(2);
  std::vector<std::int64_t> x(2 * kThreads);
  for (std::int64_t& value : x) value = static_cast<std::int64_t>(random() >> (random() % 48)) - (1 << 20);
  DeviceArray<std::int64_t> y(kThreads * 12), in(x);
  expect_sound("integers", 1, 0, y.data(), in.data());
  for (unsigned int t = 0; t < kThreads; ++t) {
    const std::int64_t a = x[2 * t], b = x[2 * t + 1];
    const auto i = static_cast<std::int32_t>(a), j = static_cast<std::int32_t>(b);
    const auto u = static_cast<std::uint32_t>(i), v = static_cast<std::uint32_t>(j);
    std::uint32_t reversed = 0;
    for (int k = 0; k < 32; ++k) reversed |= (u >> k & 1) << (31 - k);
    // Bytes 0, 4, 2 and 6 of the eight, the lowest first.
    const std::uint32_t bytes = (u & 0xff) | (v & 0xff) << 8 | (u >> 16 & 0xff) << 16 | (v >> 16 & 0xff) << 24;
    const std::int64_t expected[11] = {a / b,
                                       a % b,
                                       static_cast<std::int64_t>((static_cast<Wide>(a) * b) >> 64),
                                       i >> (j & 31),
                                       u >> (v & 31),
                                       std::popcount(static_cast<std::uint64_t>(a)) * 100 + std::countl_zero(u) +
                                           (v == 0 ? 0 : std::countr_zero(v) + 1) * 10000,
                                       reversed,
                                       bytes,
                                       v << 7 | u >> 25,
                                       static_cast<std::int16_t>(i) * static_cast<std::int16_t>(j),
                                       static_cast<std::int8_t>(i) + static_cast<std::uint8_t>(j)};
    for (unsigned int k = 0; k < 11; ++k) {
      EXPECT_EQ(y.values()[t * 12 + k], expected[k]) << "operation " << k << " of " << a << " and " << b;
    }
    const double scaled = static_cast<double>(a) * 1.5;
    const std::int64_t converted = scaled >= 0x1p63   ? INT64_MAX
                                   : scaled < -0x1p63 ? INT64_MIN
                                                      : static_cast<std::int64_t>(scaled);
    EXPECT_EQ(y.values()[t * 12 + 11], converted) << a;
  }
}

}  // namespace
}  // namespace giro::simt
