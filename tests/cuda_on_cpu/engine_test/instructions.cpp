// The instructions of instructions.cu give what the PTX manual says.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/engine_test/launch_kernel.h"

namespace giro::simt {
namespace {

template <class... Arguments>
void expect_sound(const std::string& name, unsigned int blocks, Arguments... arguments) {
  const Outcome outcome = run(kernel_named(name), {blocks}, {1}, 0, arguments...);
  EXPECT_TRUE(outcome) << outcome.message;
}

TEST(Instructions, integers) {
  const std::vector<std::uint32_t> x{0x9abcdef0, 0x76543212, 0x0f1e2d3c};
  DeviceArray<std::uint32_t> y(14), in(x);
  expect_sound("integer_instructions", 1, y.data(), in.data());
  const std::uint32_t a = x[0], b = x[1], c = x[2];
  // From b % 8 == 2 on, once around.
  std::uint32_t turned = 0 ^ c;
  turned = ((turned - c) / 7 | 5) << 1;
  turned = (~turned + a) * 3;
  const std::vector<std::uint32_t> expected{
      a >> 5 & 0x7f, 0xfffffff9, (a & b) | (a & c) | (b & c), 0 - a, turned, c, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(y.values(), expected);
}

TEST(Instructions, floats) {
  constexpr float kMost = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kTiny = 1e-40f, kThird = 1.0f / 3.0f;
  DeviceArray<float> y(23);
  DeviceArray<float> x(std::vector<float>{2.0f, kMost, kTiny, kThird, std::nanf(""), 0.0f});
  expect_sound("float_instructions", 1, y.data(), x.data());
  const float ninth = static_cast<float>(double{kThird} * kThird);  // nearest: above the exact product
  ASSERT_GT(double{ninth}, double{kThird} * kThird);
  const float expected[23] = {kMost,
                              -kMost,
                              kMost,
                              kInfinity,
                              -0.0f,
                              0.0f,
                              0.0f,
                              kMost,
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

TEST(Instructions, atomic_sums_of_subnormal_numbers) {
  constexpr float kTiny = 1e-40f;
  DeviceArray<float> y(std::vector<float>(4, 0.0f)), x(std::vector<float>{0, 0, kTiny});
  expect_sound("atomic_sums", 1, y.data(), x.data());
  EXPECT_EQ(y.values(), (std::vector<float>{0.0f, 0.0f, kTiny, kTiny}));
}

TEST(Instructions, release_and_acquire) {
  static constexpr unsigned int kBlocks = 5;
  Seeds::each([] {
    DeviceArray<std::uint32_t> y(kBlocks + 1), tickets(std::vector<std::uint32_t>(2, 0)),
        flags(std::vector<std::uint32_t>(kBlocks, 0));
    expect_sound("release_and_acquire", kBlocks, y.data(), tickets.data(), flags.data());
    EXPECT_EQ(y.values()[kBlocks], kBlocks * (kBlocks + 1) / 2);
    EXPECT_EQ(tickets.values()[1], 2 * kBlocks);
  });
}

}  // namespace
}  // namespace giro::simt
