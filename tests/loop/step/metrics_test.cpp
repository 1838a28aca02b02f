#include <giro/kernels/nn/metrics.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/log/aggregation.h>
#include <giro/loop/predefined_loops.h>
#include <giro/loop/step/step.h>

#include "tests/runtime/device_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_partitioner.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::expect_error;

// One of two ranks: the other contributes `from_other` to each mean.
struct OneOfTwo : test::FakePartitioner {
  OneOfTwo(Device device, std::vector<double> from_other)
      : FakePartitioner(0, 2),
        stream(device),
        buffer(Buffer::allocate(device, from_other.size() * sizeof(double))),
        other(buffer.data(), DType::f64, {static_cast<std::int64_t>(from_other.size())}, device) {
    from_host(other, from_other, stream);
    stream.synchronize();
  }
  void mean(const Tensor& values, const Stream& on) const override {
    add(values, values, other, on);
    scale(values, values, 0.5, on);
  }

  Stream stream;
  Buffer buffer;
  Tensor other;
};

class MetricsTest : public test::DeviceTest {
 protected:
  // A feature on the host, which the step copies.
  std::pair<std::string, Tensor> feature(const std::string& name, std::vector<float> values) {
    features_.push_back(std::make_unique<std::vector<float>>(std::move(values)));
    std::vector<float>& kept = *features_.back();
    return {name, Tensor(kept.data(), DType::f32, {static_cast<std::int64_t>(kept.size())}, Device::cpu())};
  }
  State state() const { return State(device()); }
  TrainState state_of_two(const std::vector<double>& from_other) const {
    return TrainState::create(nn::dense(1), optim::sgd(0.1),
                              {.inputs = {{"x", DType::f32, {1, 1}}},
                               .context = device(),
                               .partitioner = std::make_shared<OneOfTwo>(device(), from_other)});
  }

 private:
  std::vector<std::unique_ptr<std::vector<float>>> features_;
};
INSTANTIATE_TEST_SUITE_P(Devices, MetricsTest, test::kEachDevice, test::name_of_device);

// Three of the four rows are right, and one of the last two.
Dataset four_rows() {
  return Dataset({{"logits", {std::vector<float>{1, 0, 0, 1, 1, 0, 1, 0}, {4, 2}}},
                  {"label", std::vector<std::int32_t>{0, 1, 0, 1}},
                  {"mask", std::vector<float>{0, 0, 1, 1}}});
}

// "Accuracy .75/.5 masked"
TEST_P(MetricsTest, AccuracyIsThreeQuartersOrMaskedOneHalf) {
  const auto step = jit([](const State&, const Batch& batch) {
    return logs()
        .add_metric("all", accuracy(batch["logits"], batch["label"], {}))
        .add_metric("share", accuracy(batch["logits"], batch["label"]))
        .add_metric("masked", accuracy(batch["logits"], batch["label"], batch["mask"]));
  });
  for (const std::int64_t size : {4, 2, 1}) {  // merged over one step, two and four
    const auto result = test_loop(state(), four_rows().batch(size).to(device()), {.tasks = {{"test_step", step}}});
    const Logs merged = aggregate(result.history, "mean");
    EXPECT_EQ(merged.entry_value("all"), 0.75);
    EXPECT_EQ(merged.entry_value("share"), 0.75);
    EXPECT_EQ(merged.entry_value("masked"), 0.5);
    EXPECT_EQ(merged.schema().size(), 3u);  // the counts for merging are not entries
  }
}

TEST_P(MetricsTest, TrainLoopEvaluationWeightsByCounts) {
  const auto test = jit([](const State&, const Batch& batch) {
    return logs().add_metric("accuracy", accuracy(batch["logits"], batch["label"], batch["mask"]));
  });
  const auto result = train_loop(
      state(), four_rows().batch(4),
      {.tasks = {{"train_step", [] { return logs(); }}, {"test_step", test}}, .test_dataset = four_rows().batch(3)});
  EXPECT_EQ(result.history.column("accuracy_test"), (std::vector<double>{0.5}));
}

// "LastValue [1,2]+[3,4]: reduce 2.5, merge 3.5"
TEST_P(MetricsTest, LastValueOf12And34IsMergedTo3AndAHalf) {
  const auto step = jit([](const State&, const Batch& batch) {
    return logs().add_stateful_metric("value", average(batch["x"])).add_metric("average", average(batch["x"]));
  });
  const Dataset data({{"x", std::vector<float>{1, 2, 3, 4}}});
  const auto result = loop(state(), data.batch(2), {{every(1), step}});
  EXPECT_EQ(result.history.column("value"), (std::vector<double>{1.5, 3.5}));
  EXPECT_EQ(aggregate(result.history, "last").entry_value("value"), 3.5);
  EXPECT_EQ(aggregate(result.history, {{"metrics", "mean"}}).entry_value("value"), 3.5);
  EXPECT_EQ(aggregate(result.history, "mean").entry_value("average"), 2.5);
}

TEST_P(MetricsTest, LastValueOf12And34IsReducedTo2AndAHalf) {
  const auto step = jit(
      [](const TrainState&, const Batch& batch) { return logs().add_stateful_metric("value", average(batch["x"])); });
  TrainState one = state_of_two({7, 2 * 3.5 * 3.5, 2});  // the sums of [3, 4]
  Batch batch({feature("x", {1, 2})});
  batch.set_part(BatchPart{.ranks = 2, .samples = 4, .rows = 2});
  const Logs logs = step(one, batch);
  EXPECT_EQ(logs.entry_value("value"), 2.5);
  EXPECT_EQ(logs.entry_value("counts.stateful_metrics/value"), 4);
}

TEST_P(MetricsTest, DeviationCoversAllElementsTogether) {
  // The mask leaves 1, 3, then 5, 9, then nothing: mean 4.5, mean of squares 29.
  const Dataset data({{"x", {std::vector<float>{1, 3, 100, 5, 9, NAN, 7, 7, 7}}},
                      {"mask", std::vector<std::uint8_t>{1, 1, 0, 1, 1, 0, 0, 0, 0}}});
  const auto step = jit([](const State&, const Batch& batch) {
    return logs().add_metric("spread", standard_deviation(batch["x"], batch["mask"]));
  });
  const auto result = loop(state(), data.batch(3), {{every(1), step}});
  const std::vector<double> steps = result.history.column("spread");
  EXPECT_EQ(steps[0], 1);
  EXPECT_EQ(steps[1], 2);
  EXPECT_TRUE(std::isnan(steps[2]));
  EXPECT_NEAR(aggregate(result.history, "mean").entry_value("spread"), std::sqrt(29 - 4.5 * 4.5), 1e-14);
  EXPECT_EQ(aggregate(result.history, "max").entry_value("spread"), 2);
}

TEST_P(MetricsTest, ReducesADeviationOverRanks) {
  const auto step = jit([](const TrainState&, const Batch& batch) {
    return logs()
        .add_metric("plain", mean(batch["x"]))
        .add_metric("spread", standard_deviation(batch["x"], batch["mask"]))
        .add_metric("average", average(batch["x"], batch["mask"]));
  });
  // From the other rank: its share of the plain mean, and the sums of 5 and 9.
  TrainState one = state_of_two({7, 14, 106, 2, 14, 106, 2});
  Batch batch({feature("x", {1, 3, NAN}), feature("mask", {1, 1, 0})});
  batch.set_part(BatchPart{.ranks = 2, .samples = 6, .rows = 3});
  const Logs both = step(one, batch);
  EXPECT_NEAR(both.entry_value("spread"), std::sqrt(29 - 4.5 * 4.5), 1e-14);
  EXPECT_EQ(both.entry_value("average"), 4.5);
  // A part without samples holds a row that does not count.
  batch.set_part(BatchPart{.ranks = 2, .samples = 3, .rows = 0});
  const Logs other = step(one, batch);
  EXPECT_EQ(other.entry_value("spread"), 2);
  EXPECT_EQ(other.entry_value("average"), 7);
  EXPECT_EQ(other.entry_value("counts.metrics/average"), 2);
}

TEST_P(MetricsTest, PerplexityCoversAllLossesTogether) {
  // The mask leaves 1, 3, then 5, then nothing: mean 3.
  const Dataset data(
      {{"x", {std::vector<float>{1, 3, 5, NAN, 7, 7}}}, {"mask", std::vector<std::uint8_t>{1, 1, 1, 0, 0, 0}}});
  const auto step = jit([](const State&, const Batch& batch) {
    return logs().add_metric("perplexity", perplexity(batch["x"], batch["mask"]));
  });
  const auto result = loop(state(), data.batch(2), {{every(1), step}});
  const std::vector<double> steps = result.history.column("perplexity");
  EXPECT_NEAR(steps[0], std::exp(2.0), 1e-13);
  EXPECT_NEAR(steps[1], std::exp(5.0), 1e-12);
  EXPECT_TRUE(std::isnan(steps[2]));
  const Logs merged = aggregate(result.history, "mean");
  EXPECT_NEAR(merged.entry_value("perplexity"), std::exp(3.0), 1e-13);
  EXPECT_EQ(merged.schema().size(), 1u);
  EXPECT_NEAR(aggregate(result.history, "max").entry_value("perplexity"), std::exp(5.0), 1e-12);
}

TEST_P(MetricsTest, ReducesAPerplexityOverRanks) {
  const auto step = jit(
      [](const TrainState&, const Batch& batch) { return logs().add_metric("perplexity", perplexity(batch["x"])); });
  TrainState one = state_of_two({7, 2 * 3.5 * 3.5, 2});  // the sums of [3, 4]
  Batch batch({feature("x", {1, 2})});
  batch.set_part(BatchPart{.ranks = 2, .samples = 4, .rows = 2});
  const Logs logs = step(one, batch);
  EXPECT_NEAR(logs.entry_value("perplexity"), std::exp(2.5), 1e-13);
  EXPECT_EQ(logs.entry_value("logarithms.metrics/perplexity"), 2.5);
  EXPECT_EQ(logs.entry_value("counts.metrics/perplexity"), 4);
}

TEST_P(MetricsTest, AddsTotalsOverRanks) {
  const auto step = jit([](const TrainState&, const Batch& batch) {
    return logs()
        .add_metric("total", nn::Metric{.value = sum(batch["x"])})
        .add_metric("rows", nn::Metric{.value = sum(cast(batch["x"] > 0, DType::i64))});
  });
  TrainState one = state_of_two({2 * 7, 2 * 2});  // [3, 4], as this rank's sums enter the mean
  Batch batch({feature("x", {1, 2})});
  batch.set_part(BatchPart{.ranks = 2, .samples = 4, .rows = 2});
  const Logs both = step(one, batch);
  EXPECT_EQ(both.entry_value("total"), 10);
  EXPECT_EQ(both.entry_value("rows"), 4);
  // A part without samples holds a row that does not count.
  batch.set_part(BatchPart{.ranks = 2, .samples = 2, .rows = 0});
  const Logs other = step(one, batch);
  EXPECT_EQ(other.entry_value("total"), 7);
  EXPECT_EQ(other.entry_value("rows"), 2);
}

TEST_P(MetricsTest, CountsElementsOfAnyRankAndDtype) {
  const Dataset data(
      {{"x", {std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {3, 2}}}, {"mask", std::vector<std::int64_t>{1, 0, 5}}});
  const auto step = eager([](const State&, const Batch& batch) {
    return logs().add_metric("average", average(batch["x"], batch["mask"]));
  });
  State one = state();
  const Logs logs = step(one, *data.batch(3).begin());
  EXPECT_EQ(logs.entry_value("average"), (1 + 2 + 5 + 6) / 4.0);
  EXPECT_EQ(logs.entry_value("counts.metrics/average"), 4);
}

TEST_P(MetricsTest, RejectsMismatchedMask) {
  const auto step = jit([](const State&, const Batch& batch) {
    return logs().add_metric("average", average(batch["x"], batch["mask"]));
  });
  const Batch batch({feature("x", {1, 2, 3}), feature("mask", {1, 1})});
  State one = state();
  expect_error(ErrorCode::shape_mismatch, {"moments", "mask", "(2,)", "(3,)"}, [&] { step(one, batch); });
}

}  // namespace
}  // namespace giro
