// Launches giro's kernels as its CUDA backend does and compares them with naive loops in double precision, for each
// seed. giro's own tests cover more, through the runtime. These tests separate bugs of the translator or the engine
// from bugs of the runtime.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <giro/kernels/optim/update.h>
#include <giro/kernels/publish.h>

#include "tests/cuda_on_cpu/engine_test/launch_kernel.h"

namespace giro::simt {
namespace {

std::vector<float> random_values(std::size_t count, unsigned int seed, float low = -3, float high = 3) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

void expect_runs(const Outcome& outcome) { EXPECT_TRUE(outcome) << outcome.message; }

void expect_near(float actual, double expected, double tolerance) {
  EXPECT_NEAR(actual, expected, tolerance * std::max(1.0, std::fabs(expected)));
}

unsigned int blocks_for(std::size_t n, std::size_t per_block) {
  return static_cast<unsigned int>((n + per_block - 1) / per_block);
}

// As declared in kernels/host_device/storage.h.
struct Output {
  void* data;
  DType dtype;
};

// As declared in kernels/host_device/fault.h.
struct Fault {
  std::uint64_t* words;
  const std::int64_t* call;
};

TEST(LibraryKernels, softmax_cross_entropy) {
  constexpr std::size_t kRows = 13, kColumns = 45;
  const std::vector<float> logits = random_values(kRows * kColumns, 1, -9, 9);
  std::vector<std::uint8_t> labels(kRows);
  for (std::size_t r = 0; r < kRows; ++r) labels[r] = static_cast<std::uint8_t>(r * 7 % kColumns);
  labels[5] = kColumns;  // unknown
  Seeds::each([&] {
    DeviceArray<float> losses(kRows), gradients(kRows * kColumns), x(logits);
    DeviceArray<std::uint8_t> y(labels);
    DeviceArray<std::uint64_t> fault(std::vector<std::uint64_t>(2, ~std::uint64_t{0}));
    const auto run_into = [&](float* into) {
      expect_runs(run(kernel_named("softmax_cross_entropy_kernel<float, unsigned char>"), {blocks_for(kRows, 4)}, {128},
                      0, losses.data(), Output{into, DType::f32}, x.data(), y.data(), std::int64_t{kRows},
                      std::int64_t{kColumns}, Fault{fault.data(), nullptr}));
    };
    run_into(gradients.data());
    run_into(x.data());  // in place
    for (std::size_t i = 0; i < kRows * kColumns; ++i) {
      EXPECT_TRUE(x.values()[i] == gradients.values()[i] || labels[i / kColumns] == kColumns);
    }
    EXPECT_EQ(fault.values(), (std::vector<std::uint64_t>{5, std::uint64_t{5} << 32 | kColumns}));
    for (std::size_t r = 0; r < kRows; ++r) {
      const float* row = &logits[r * kColumns];
      if (labels[r] == kColumns) {
        EXPECT_TRUE(std::isnan(losses.values()[r]));
        continue;
      }
      double sum = 0;
      for (std::size_t c = 0; c < kColumns; ++c) sum += std::exp(static_cast<double>(row[c]));
      expect_near(losses.values()[r], std::log(sum) - row[labels[r]], 1e-6);
      for (std::size_t c = 0; c < kColumns; ++c) {
        expect_near(gradients.values()[r * kColumns + c],
                    std::exp(static_cast<double>(row[c])) / sum - (c == labels[r]), 1e-6);
      }
    }
  });
}

// As declared in kernels/cuda/gather.cu.
template <class Unit>
struct GatherRows {
  Unit* out;
  const Unit* src;
  const std::int64_t* indices;
  std::int64_t row_units, count, size;
  bool has_outer;
  std::uint64_t missing;
  Fault fault;
};

struct alignas(16) Sixteen {
  std::uint8_t bytes[16];
};

template <class Unit>
void expect_gathers(const std::string& unit) {
  constexpr std::size_t kRows = 20, kTaken = 37, kRowUnits = 9, kRowBytes = kRowUnits * sizeof(Unit);
  std::vector<std::uint8_t> bytes(kRows * kRowBytes);
  std::mt19937 random(9);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  std::vector<std::int64_t> indices(kTaken);
  for (std::int64_t& index : indices) index = random() % kRows;
  Seeds::each([&] {
    DeviceArray<std::uint8_t> out(kTaken * kRowBytes), src(bytes);
    DeviceArray<std::int64_t> taken(indices);
    const GatherRows<Unit> gather{reinterpret_cast<Unit*>(out.data()),
                                  reinterpret_cast<const Unit*>(src.data()),
                                  taken.data(),
                                  kRowUnits,
                                  kTaken,
                                  kRows,
                                  false,
                                  0,
                                  nullptr,
                                  nullptr};
    constexpr std::int64_t kUnits = kTaken * kRowUnits;
    expect_runs(run(kernel_named("GatherRows<" + unit + ", long> >(long"), {blocks_for(kUnits, 256)}, {256}, 0, kUnits,
                    gather));
    for (std::size_t i = 0; i < kTaken; ++i) {
      const auto row = static_cast<std::size_t>(indices[i]);
      const std::vector<std::uint8_t> values = out.values();
      EXPECT_TRUE(std::equal(&bytes[row * kRowBytes], &bytes[row * kRowBytes] + kRowBytes, &values[i * kRowBytes]));
    }
  });
}

TEST(LibraryKernels, gather_rows) {
  expect_gathers<Sixteen>("uint4");
  expect_gathers<std::uint32_t>("unsigned int");
  expect_gathers<std::uint8_t>("unsigned char");
}

}  // namespace
}  // namespace giro::simt
