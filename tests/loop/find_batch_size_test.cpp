#include <giro/loop/find_batch_size.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>

#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_partitioner.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/training.h"

namespace giro {
namespace {

using test::expect_error;

// The result, if a batch of n takes 10 bytes for each sample, and what was tried.
struct Found {
  std::int64_t size;
  std::vector<std::int64_t> tried;
};
Found find(const FindBatchSizeOptions& options, int ranks = 1) {
  Found found{};
  const test::FakePartitioner partitioner(0, ranks);
  const auto bytes_of = [&](std::int64_t n) {
    found.tried.push_back(n);
    return static_cast<std::size_t>(10 * n);
  };
  found.size = detail::find_batch_size(bytes_of, Device::cpu(), ranks > 1 ? &partitioner : nullptr, options);
  return found;
}
using Sizes = std::vector<std::int64_t>;

TEST(FindBatchSize, PowersOfTwoAsLongAsTheyFit) {
  const Found found = find({.budget = 999});
  EXPECT_EQ(found.size, 64);
  EXPECT_EQ(found.tried, (Sizes{1, 2, 4, 8, 16, 32, 64, 128}));
  EXPECT_EQ(find({.min = 5, .max = 40, .budget = 10'000}).tried, (Sizes{8, 16, 32}));
  EXPECT_EQ(find({.min = 8, .max = 8, .budget = 80}).size, 8);
  EXPECT_EQ(find({.budget = 640}).size, 64);  // what fits exactly
}

TEST(FindBatchSize, AnySizeByBisection) {
  for (const std::size_t budget : {10u, 19u, 20u, 70u, 989u, 990u, 999u, 1000u}) {
    EXPECT_EQ(find({.max = 100, .power_of_two = false, .budget = budget}).size,
              static_cast<std::int64_t>(std::min<std::size_t>(budget / 10, 100)));
  }
  EXPECT_EQ(find({.min = 7, .max = 100, .power_of_two = false, .budget = 5'000}).size, 100);
  EXPECT_EQ(find({.min = 7, .max = 100, .power_of_two = false, .budget = 79}).size, 7);
}

TEST(FindBatchSize, MultiplesOfTheRanks) {
  EXPECT_EQ(find({.budget = 999}, 3).size, 96);
  EXPECT_EQ(find({.power_of_two = false, .budget = 995}, 3).size, 99);
  EXPECT_EQ(find({.min = 10, .max = 20, .power_of_two = false, .budget = 9'999}, 4).tried, (Sizes{12, 20}));
}

TEST(FindBatchSize, AllRanksUseASizeThatFitsEach) {
  struct Ranks : test::FakePartitioner {
    using FakePartitioner::FakePartitioner;
    // Another rank has room for the first two sizes only.
    void all_reduce_max(std::span<double> values) const override {
      FakePartitioner::all_reduce_max(values);
      if (questions.size() > 2) values[0] = 1;
    }
  };
  const Ranks ranks(0, 2);
  const auto nothing = [](std::int64_t) { return std::size_t{0}; };
  EXPECT_EQ(detail::find_batch_size(nothing, Device::cpu(), &ranks, {.budget = 1}), 4);
  expect_error(ErrorCode::out_of_memory, {"a batch of 2", "another rank"},
               [&] { (void)detail::find_batch_size(nothing, Device::cpu(), &ranks, {.budget = 1}); });
}

TEST(FindBatchSize, OutOfMemoryDoesNotFit) {
  const auto bytes_of = [](std::int64_t n) -> std::size_t {
    if (n > 20) throw Error(ErrorCode::out_of_memory, "no room");
    return 1;
  };
  EXPECT_EQ(detail::find_batch_size(bytes_of, Device::cpu(), nullptr, {.power_of_two = false, .budget = 1}), 20);
  expect_error(ErrorCode::out_of_memory, {"a batch of 32", "no room"},
               [&] { (void)detail::find_batch_size(bytes_of, Device::cpu(), nullptr, {.min = 32, .budget = 1}); });
}

TEST(FindBatchSize, Errors) {
  expect_error(ErrorCode::invalid_argument, {"min is 0"}, [] { find({.min = 0, .budget = 99}); });
  expect_error(ErrorCode::invalid_argument, {"min is 9, max is 8"}, [] { find({.min = 9, .max = 8, .budget = 99}); });
  expect_error(ErrorCode::invalid_argument, {"min is 5, max is 7", "power of two"},
               [] { find({.min = 5, .max = 7, .budget = 99}); });
  expect_error(ErrorCode::invalid_argument, {"min is 1, max is 2", "3 ranks"},
               [] { find({.max = 2, .power_of_two = false, .budget = 99}, 3); });
  expect_error(ErrorCode::out_of_memory, {"a batch of 16 does not fit on cpu", "160 bytes", "159"},
               [] { find({.min = 10, .budget = 159}); });
}

class FindBatchSizeTest : public test::OpTest {};

// A step of a model whose activations outweigh everything that does not grow with the batch.
TEST_P(FindBatchSizeTest, FindsTheLargestThatFits) {
  const test::ArenaSetting arena("1");  // the sanitizers' tests run without
  const std::vector<float> xs(256 * 64, 0.5f);
  const Dataset rows({{"x", HostArray(xs, {256, 64})}});
  const nn::Layer model = nn::sequential(nn::dense(2'048, {.activation = Activation::relu}), nn::dense(1));
  const auto step = jit(test::training(
      [&](const nn::Params& params, const Batch& batch) { return mean(square(model(params, batch["x"]))); }));
  TrainState state =
      TrainState::create(model, optim::sgd(0.1), {.inputs = rows.spec(), .seed = 1, .context = device()});
  const auto before = test::saved_bytes(state);
  const auto batch_of = [&](std::int64_t n) { return *rows.batch(n).begin(); };
  const auto memory_of = [&](std::int64_t n) { return step.memory(state, batch_of(n)); };

  const StepMemory memory = memory_of(100);
  EXPECT_EQ(memory.temporaries, step.program(state, batch_of(100)).memory());
  EXPECT_GE(memory.temporaries, 100 * 2'048 * sizeof(float));
  EXPECT_GE(memory.reserved, memory.temporaries);
  EXPECT_GE(memory.inputs, 100 * 64 * sizeof(float));
  EXPECT_EQ(memory.bytes(), memory.inputs + memory.reserved);

  const std::size_t budget = memory.bytes();
  EXPECT_EQ(find_batch_size(step, state, rows, {.min = 32, .budget = budget}), 64);
  const std::int64_t found =
      find_batch_size(step, state, batch_of, {.min = 98, .max = 104, .power_of_two = false, .budget = budget});
  EXPECT_GE(found, 100);
  EXPECT_LE(memory_of(found).bytes(), budget);
  EXPECT_GT(memory_of(found + 1).bytes(), budget);
  // All of it fits into the free memory, and nothing was run or kept.
  EXPECT_EQ(find_batch_size(step, state, rows, {.min = 256}), 256);
  EXPECT_EQ(step.num_recordings(), 0u);
  EXPECT_EQ(test::saved_bytes(state), before);
  test::expect_error(ErrorCode::out_of_memory, {"a batch of 128 does not fit on", std::to_string(budget)},
                     [&] { (void)find_batch_size(step, state, rows, {.min = 128, .budget = budget}); });
}

INSTANTIATE_TEST_SUITE_P(Devices, FindBatchSizeTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
