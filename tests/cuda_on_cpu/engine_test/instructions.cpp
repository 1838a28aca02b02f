// Tests that the instructions of instructions.cu give the results that the PTX manual specifies.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/engine_test/launch_kernel.h"

namespace giro::simt {
namespace {

template <class... Arguments>
void expect_runs_to_end(const std::string& name, unsigned int blocks, Arguments... arguments) {
  const Outcome outcome = run(kernel_named(name), {blocks}, {1}, 0, arguments...);
  EXPECT_TRUE(outcome) << outcome.message;
}

TEST(Instructions, integers) {
  const std::vector<std::uint32_t> x{0x9abcdef0, 0x76543212, 0x0f1e2d3c};
  DeviceArray<std::uint32_t> y(14), in(x);
  expect_runs_to_end("integer_instructions", 1, y.data(), in.data());
  const std::uint32_t a = x[0], b = x[1], c = x[2];
  // Goes once through all cases of the switch, starting at b % 8 == 2.
  std::uint32_t turned = 0 ^ c;
  turned = ((turned - c) / 7 | 5) << 1;
  turned = (~turned + a) * 3;
  const std::vector<std::uint32_t> expected{
      a >> 5 & 0x7f, 0xfffffff9, (a & b) | (a & c) | (b & c), 0 - a, turned, c, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(y.values(), expected);
}

TEST(Instructions, carries) {
  using Wide = unsigned __int128;
  for (const auto& [a, b] : {std::pair<std::uint64_t, std::uint64_t>{5, 7},
                             {0xffffffff, 1},
                             {~std::uint64_t{0}, 1},
                             {~std::uint64_t{0}, ~std::uint64_t{0}},
                             {0x123456789abcdef0, 0xfedcba9876543210}}) {
    const auto low = [](Wide x) { return static_cast<std::uint32_t>(x); };
    const Wide sum = Wide{a} + b, difference = Wide{a} - b, product = Wide{a} * b;
    DeviceArray<std::uint32_t> y(10), x({low(a), low(a >> 32), low(b), low(b >> 32)});
    expect_runs_to_end("carrying_instructions", 1, y.data(), x.data());
    EXPECT_EQ(y.values(), (std::vector<std::uint32_t>{low(sum), low(sum >> 32), low(sum >> 64), low(difference),
                                                      low(difference >> 32), low(difference >> 64), low(product),
                                                      low(product >> 32), low(product >> 64), low(product >> 96)}));
  }
}

TEST(Instructions, halves) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{1,     -2,       0.1f,     1 + 0x1p-11f, 1 + 0x3p-11f, 65519,
                             65520, 0x1p-25f, 0x3p-25f, -0.0f,        kInfinity};
  DeviceArray<std::uint32_t> bits(x.size());
  DeviceArray<float> y(x.size()), from(x);
  expect_runs_to_end("half_instructions", 1, bits.data(), y.data(), from.data(), static_cast<int>(x.size()));
  EXPECT_EQ(bits.values(), (std::vector<std::uint32_t>{0x3c00, 0xc000, 0x2e66, 0x3c00, 0x3c02, 0x7bff, 0x7c00, 0,
                                                       0x0002, 0x8000, 0x7c00}));
  EXPECT_EQ(y.values(),
            (std::vector<float>{1, -2, 0x1.998p-4f, 1, 1 + 0x1p-9f, 65504, kInfinity, 0, 0x1p-23f, -0.0f, kInfinity}));
}

TEST(Instructions, bfloat16s) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> x{
      1,         -2,        0.1f,  1 + 0x1p-8f,          1 + 0x3p-8f,        Limits::max(),
      0x1p-134f, 0x3p-134f, -0.0f, Limits::denorm_min(), Limits::infinity(), -Limits::quiet_NaN()};
  DeviceArray<std::uint32_t> bits(x.size());
  DeviceArray<float> from(x);
  expect_runs_to_end("bfloat16_instructions", 1, bits.data(), from.data(), static_cast<int>(x.size()));
  EXPECT_EQ(bits.values(), (std::vector<std::uint32_t>{0x3f80, 0xc000, 0x3dcd, 0x3f80, 0x3f82, 0x7f80, 0, 0x0002,
                                                       0x8000, 0, 0x7f80, 0x7fff}));
}

TEST(Instructions, sines_of_large_numbers) {
  const std::vector<double> x{1, 1e5, 1e22, 0x1.fffffffffffffp1023};
  DeviceArray<double> y(4), from(x);
  expect_runs_to_end("sines", 1, y.data(), from.data());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y.values()[i], std::sin(x[i]), 0x1p-52) << x[i];
}

TEST(Instructions, floats) {
  constexpr float kMax = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kTiny = 1e-40f, kThird = 1.0f / 3.0f;
  DeviceArray<float> y(23);
  DeviceArray<float> x(std::vector<float>{2.0f, kMax, kTiny, kThird, std::nanf(""), 0.0f});
  expect_runs_to_end("float_instructions", 1, y.data(), x.data());
  const float ninth = static_cast<float>(double{kThird} * kThird);  // rounding to nearest goes above the exact product
  ASSERT_GT(double{ninth}, double{kThird} * kThird);
  const float expected[23] = {kMax,
                              -kMax,
                              kMax,
                              kInfinity,
                              -0.0f,
                              0.0f,
                              0.0f,
                              kMax,
                              std::nextafter(ninth, 0.0f),
                              ninth,
                              1.0f,
                              std::nextafter(1.0f, 2.0f),
                              -std::nextafter(1.0f, 0.0f),
                              static_cast<float>(std::log2(double{kThird})),
                              static_cast<float>(std::sin(double{kThird})),
                              static_cast<float>(std::cos(double{kThird})),
                              static_cast<float>(std::tanh(double{kThird})),
                              1.0f,
                              0.0f,
                              1.0f,
                              1.0f,
                              0.0f,
                              0.0f};
  for (std::size_t i = 0; i < 23; ++i) {
    EXPECT_EQ(y.values()[i], expected[i]) << i;
    EXPECT_EQ(std::signbit(y.values()[i]), std::signbit(expected[i])) << i;
  }
}

TEST(Instructions, matrix_products) {
  constexpr std::size_t kRows = 16, kColumns = 8, kTerms = 16;
  const auto small = [](std::size_t i, int step) {
    return static_cast<float>(static_cast<int>(i * 7 % 19) * step - 9);
  };
  const auto bf16_of = [](float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); };
  const auto f16_of = [](float x) { return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x)); };
  std::vector<std::uint16_t> a, b;
  for (std::size_t i = 0; i < kRows * kTerms; ++i) a.push_back(bf16_of(small(i, 1)));
  for (std::size_t i = 0; i < kRows * kTerms; ++i) a.push_back(f16_of(small(i, 1)));
  for (std::size_t i = 0; i < kTerms * kColumns; ++i) b.push_back(bf16_of(small(i, 2)));
  for (std::size_t i = 0; i < kTerms * kColumns; ++i) b.push_back(f16_of(small(i, 2)));
  std::vector<float> c, expected;
  for (std::size_t i = 0; i < kRows * kColumns; ++i) {
    c.push_back(static_cast<float>(i) / 2);
    expected.push_back(c.back());
    for (std::size_t k = 0; k < kTerms; ++k) {
      expected.back() += small(i / kColumns * kTerms + k, 1) * small(k * kColumns + i % kColumns, 2);
    }
  }
  expected.insert(expected.end(), expected.begin(), expected.end());
  DeviceArray<float> y(2 * c.size()), sums(c);
  DeviceArray<std::uint16_t> as(a), bs(b);
  const Outcome outcome =
      run(kernel_named("matrix_products"), {1}, {32}, 0, y.data(), as.data(), bs.data(), sums.data());
  ASSERT_TRUE(outcome) << outcome.message;
  EXPECT_EQ(y.values(), expected);

  const Outcome small_block =
      run(kernel_named("matrix_products"), {1}, {16}, 0, y.data(), as.data(), bs.data(), sums.data());
  EXPECT_NE(small_block.message.find("mma in a warp that the block does not fill"), std::string::npos)
      << small_block.message;
}

TEST(Instructions, packs) {
  DeviceArray<std::uint32_t> y(2);
  DeviceArray<float> x(std::vector<float>{1.0f, -2.0f});
  expect_runs_to_end("packing_instructions", 1, y.data(), x.data());
  EXPECT_EQ(y.values(), (std::vector<std::uint32_t>{0x3f80c000, 0x3c00c000}));
}

TEST(Instructions, atomic_sums_of_subnormal_numbers) {
  constexpr float kTiny = 1e-40f;
  DeviceArray<float> y(std::vector<float>(4, 0.0f)), x(std::vector<float>{0, 0, kTiny});
  expect_runs_to_end("atomic_sums", 1, y.data(), x.data());
  EXPECT_EQ(y.values(), (std::vector<float>{0.0f, 0.0f, kTiny, kTiny}));
}

TEST(Instructions, release_and_acquire) {
  static constexpr unsigned int kBlocks = 5;
  Seeds::each([] {
    DeviceArray<std::uint32_t> y(kBlocks + 1), tickets(std::vector<std::uint32_t>(2, 0)),
        flags(std::vector<std::uint32_t>(kBlocks, 0));
    expect_runs_to_end("release_and_acquire", kBlocks, y.data(), tickets.data(), flags.data());
    EXPECT_EQ(y.values()[kBlocks], kBlocks * (kBlocks + 1) / 2);
    EXPECT_EQ(tickets.values()[1], 2 * kBlocks);
  });
}

}  // namespace
}  // namespace giro::simt
