#include <giro/loop/elapse.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <ranges>
#include <sstream>
#include <string>
#include <vector>

#include <giro/loop/data/batch.h>

namespace giro {
namespace {

using Steps = std::vector<std::int64_t>;

TEST(Elapse, YieldsTheTimeAtTheBeginningOfEachStep) {
  const std::vector<double> data{1, 2, 3};
  Steps steps, samples;
  double sum = 0;
  for (auto [elapsed, batch] : elapse(data)) {
    EXPECT_EQ(elapsed.steps == 0, elapsed.time() == 0);
    EXPECT_NEAR(elapsed.date, Elapsed::now(), 1.0);
    steps.push_back(elapsed.steps);
    samples.push_back(elapsed.samples);
    sum += batch;
  }
  EXPECT_EQ(steps, (Steps{0, 1, 2}));
  EXPECT_EQ(samples, steps);
  EXPECT_EQ(sum, 6);
}

TEST(Elapse, StopsWithoutFetchingAnExtraBatch) {
  std::istringstream words("a b c d");
  auto dataset = std::views::istream<std::string>(words);
  std::string seen;
  std::vector<bool> last;
  for (auto [elapsed, batch] : elapse(dataset, {.stop = at(2)})) {
    seen += batch;
    last.push_back(elapsed.last);
  }
  EXPECT_EQ(seen, "ab");
  EXPECT_EQ(last, (std::vector<bool>{false, true}));
  std::string rest;
  words >> rest;
  EXPECT_EQ(rest, "c");
}

TEST(Elapse, EachBatchIsCreatedOnce) {
  int made = 0;
  auto batches = std::views::iota(0, 10) | std::views::transform([&](int i) {
                   ++made;
                   return i;
                 });
  int sum = 0;
  for (auto [elapsed, batch] : elapse(batches)) sum += batch;
  EXPECT_EQ(sum, 45);
  EXPECT_EQ(made, 10);
}

TEST(Elapse, RunPastItsStopYieldsNothing) {
  const std::vector<int> data{1, 2, 3};
  for (auto [elapsed, batch] : elapse(data, {.stop = 5, .initial = {.steps = 5}})) FAIL() << elapsed.steps << batch;
  const std::vector<int> empty;
  for (auto [elapsed, batch] : elapse(empty)) FAIL() << elapsed.steps << batch;
}

TEST(Elapse, ContinuesWhereAnotherLoopStopped) {
  const std::vector<int> data{1, 2, 3};
  Steps steps;
  for (auto [elapsed, batch] : elapse(data, {.initial = {.steps = 7, .date = 50, .date_start = 20}})) {
    steps.push_back(elapsed.steps);
    EXPECT_GE(elapsed.time(), 30);
    EXPECT_LT(elapsed.time(), 40);
    EXPECT_GT(batch, 0);
  }
  EXPECT_EQ(steps, (Steps{7, 8, 9}));
}

// It is single-pass: begin() is where it is, and does not start again.
TEST(Elapse, BeginsOnce) {
  std::istringstream words("a b c");
  auto dataset = std::views::istream<std::string>(words);
  auto batches = elapse(dataset);
  auto it = batches.begin();
  EXPECT_EQ((*batches.begin()).batch, "a");
  ++it;
  EXPECT_EQ((*batches.begin()).elapsed.steps, 1);
  EXPECT_EQ((*batches.begin()).batch, "b");
  ++it;
  ++it;
  EXPECT_TRUE(batches.begin() == batches.end());
}

// Reference test 2: how samples are counted.
TEST(Elapse, BatchSizes) {
  using Features = Batch::Features;
  std::vector<float> memory(6);
  const auto tensor = [&](const Shape& shape) { return Tensor(memory.data(), DType::f32, shape, Device::cpu()); };
  const auto expect_samples = [](const Batch& batch, std::int64_t each,
                                 std::function<std::int64_t(const Batch&)> fn = {}) {
    const std::vector<Batch> data(4, batch);
    for (auto [elapsed, b] : elapse(data, {.batch_size_fn = fn})) EXPECT_EQ(elapsed.samples, each * elapsed.steps);
  };
  const Batch two(Features{{"a", tensor({3, 2})}, {"b", tensor({4, 1})}});
  expect_samples(two, 4);
  expect_samples(two, 3, [](const Batch& batch) { return std::min(batch["a"].shape()[0], batch["b"].shape()[0]); });
  expect_samples(Batch(), 1);
  expect_samples(Batch(Features{{"a", tensor({})}, {"b", tensor({})}}), 1);
}

}  // namespace
}  // namespace giro
