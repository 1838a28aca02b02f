// Each reader of the logs shows the same number for 40 rows, however they are divided into batches.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/flip/eval_loop.h>
#include <giro/callbacks/flip/train_loop.h>
#include <giro/callbacks/jaxloop/actions.h>
#include <giro/callbacks/jaxloop/loops.h>
#include <giro/callbacks/keras_bar.h>
#include <giro/callbacks/tqdm_bar.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/log/combined_logs.h>
#include <giro/loop/predefined_loops.h>
#include <giro/loop/step/step.h>

#include "tests/callbacks/bar_output.h"

namespace giro {
namespace {

constexpr std::int64_t kRows = 40, kClasses = 3;

struct Row {
  float x;
  std::int32_t label, prediction;
  bool counts;
};

// The first ten rows do not count, so that there are batches in which nothing does.
Row row(std::int64_t i) {
  const auto label = static_cast<std::int32_t>((5 * i + i / 7) % kClasses);
  const auto prediction = static_cast<std::int32_t>((label + (i % 4 == 0 ? 1 : i % 9 == 0 ? 2 : 0)) % kClasses);
  return {static_cast<float>((7 * i + 3) % 33) / 8, label, prediction, i >= 10 && i % 4 != 1};
}

// `shift` is added to x: an earlier evaluation with other results.
Dataset rows(float shift = 0) {
  std::vector<float> x, logits, mask;
  std::vector<std::int32_t> labels, predictions;
  for (std::int64_t i = 0; i < kRows; ++i) {
    const Row of = row(i);
    x.push_back(of.x + shift);
    for (std::int64_t c = 0; c < kClasses; ++c) {
      logits.push_back(c == of.prediction ? 2 : c == (of.prediction + 1) % kClasses ? 1 : 0);
    }
    labels.push_back(of.label);
    predictions.push_back(shift > 0 ? 0 : of.prediction);
    mask.push_back(of.counts ? 1 : 0);
  }
  return Dataset({{"x", {x, {kRows, 1}}},
                  {"logits", {logits, {kRows, kClasses}}},
                  {"label", labels},
                  {"prediction", predictions},
                  {"mask", mask}});
}

using Metrics = std::vector<std::pair<std::string, flip::MetricFunction>>;

// Every kind, except those of a host.
Metrics metrics() {
  return {
      {"plain", [](const nn::Var&, const Batch& b) { return mean(b["x"]); }},
      {"average", [](const nn::Var&, const Batch& b) { return average(b["x"], b["mask"]); }},
      {"deviation", [](const nn::Var&, const Batch& b) { return standard_deviation(b["x"], b["mask"]); }},
      {"perplexity", [](const nn::Var&, const Batch& b) { return perplexity(b["x"], b["mask"]); }},
      {"accuracy", [](const nn::Var&, const Batch& b) { return accuracy(b["logits"], b["label"], b["mask"]); }},
      {"top_two", [](const nn::Var&, const Batch& b) { return top_k_accuracy(b["logits"], b["label"], 2, b["mask"]); }},
      {"precision",
       [](const nn::Var&, const Batch& b) { return precision(b["prediction"], b["label"], 1, b["mask"]); }},
      {"recall", [](const nn::Var&, const Batch& b) { return recall(b["prediction"], b["label"], 1, b["mask"]); }},
      {"total", [](const nn::Var&, const Batch& b) { return nn::Metric{.value = sum(b["mask"])}; }}};
}

Logs log_metrics(const Batch& batch) {
  Logs logs = giro::logs().add_loss("loss", mean(batch["x"]));
  for (const auto& [name, metric] : metrics()) metric.add(logs, name, batch["x"], batch);
  return logs.add_output("confusion", confusion_matrix(batch["prediction"], batch["label"], kClasses));
}

std::map<std::string, double> expected_numbers() {
  double sum = 0, counted = 0, sum_counted = 0, squares = 0, right = 0, among_two = 0;
  double predicted = 0, labelled = 0, both = 0;
  for (std::int64_t i = 0; i < kRows; ++i) {
    const auto [x, label, prediction, counts] = row(i);
    sum += double{x};
    if (!counts) continue;
    counted += 1;
    sum_counted += double{x};
    squares += double{x} * double{x};
    right += prediction == label ? 1 : 0;
    among_two += prediction == label || (prediction + 1) % kClasses == label ? 1 : 0;
    predicted += prediction == 1 ? 1 : 0;
    labelled += label == 1 ? 1 : 0;
    both += prediction == 1 && label == 1 ? 1 : 0;
  }
  const double mean = sum_counted / counted;
  return {{"loss", sum / double{kRows}},
          {"plain", sum / double{kRows}},
          {"average", mean},
          {"deviation", std::sqrt(squares / counted - mean * mean)},
          {"perplexity", std::exp(mean)},
          {"accuracy", right / counted},
          {"top_two", among_two / counted},
          {"precision", both / predicted},
          {"recall", both / labelled},
          {"total", counted}};
}

void expect_number(double found, const std::string& name) {
  const double expected = expected_numbers().at(name);
  // The mean of a batch in f32, or the sums of all elements in f64.
  const double error = name == "plain" || name == "loss" ? 4e-7 : 1e-13;
  EXPECT_NEAR(found, expected, error * expected) << name;
}

void expect_confusion(const HostArray& found) {
  std::vector<std::int64_t> expected(kClasses * kClasses);
  for (std::int64_t i = 0; i < kRows; ++i) {
    expected[static_cast<std::size_t>(row(i).label * kClasses + row(i).prediction)] += 1;
  }
  EXPECT_EQ(to_host<std::int64_t>(found.tensor(), Stream(Device::cpu())), expected);
}

TrainState new_state() {
  return TrainState::create(nn::dense(1), optim::sgd(0.5), {.inputs = rows().spec(), .context = Device::cpu()});
}
Step<TrainState> metrics_step() {
  return jit([](const TrainState&, const Batch& batch) { return log_metrics(batch); });
}

class ReadersOfMetrics : public test::BarFile, public testing::WithParamInterface<std::int64_t> {
 protected:
  Dataset batches(float shift = 0) const { return rows(shift).batch(GetParam()); }
  std::int64_t steps() const { return (kRows + GetParam() - 1) / GetParam(); }
  // In the last line of a bar.
  void expect_shown(const std::string& text) {
    const std::string line = lines().back();
    EXPECT_NE(line.find(text), std::string::npos) << line << "\nexpected " << text;
  }
  // What a host logs: the rows so far, and a rate that falls with them.
  static Logs seen(const Elapsed& elapsed) {
    const std::int64_t rows = elapsed.samples + elapsed.step_samples;
    return logs()
        .add_stateful_metric("seen", rows)
        .add_entry("metrics", "rate", 10 / static_cast<double>(rows), LogSchema::Rule::last);
  }
};
// Even, ragged, one at a time.
INSTANTIATE_TEST_SUITE_P(Batches, ReadersOfMetrics, testing::Values(8, 9, 1));

TEST_P(ReadersOfMetrics, AggregateAndCombinedLogs) {
  const auto result = loop(new_state(), batches(), {{every(1), {metrics_step(), seen}}});
  CombinedLogs by_hand;
  for (const auto& [elapsed, logs] : result.history) by_hand.add(logs, elapsed.step_samples);
  for (const Outputs::Record& record : result.outputs) by_hand.add_arrays(record.logs);
  for (const Logs& all : {aggregate(result.history, result.outputs), by_hand.logs()}) {
    for (const auto& [name, value] : expected_numbers()) expect_number(all.entry_value(name), name);
    EXPECT_EQ(all.entry_value("seen"), kRows);
    EXPECT_EQ(all.entry_value("rate"), 0.25);
    const auto confusion = all.schema().find("outputs", "confusion");
    ASSERT_TRUE(confusion);
    expect_confusion(*all.values()[*confusion].array());
  }
}

TEST_P(ReadersOfMetrics, Bars) {
  const auto run = [&](const auto& bar) {
    (void)loop(new_state(), batches(), {{every(1), {metrics_step(), seen, bar}}});
  };
  run(keras_bar({.total = steps(), .out = file_}));
  for (const auto& [name, value] : expected_numbers()) {
    expect_shown(fmt::format(" - {}: {:.4f}", name, value));
  }
  expect_shown(" - seen: 40.0000");
  expect_shown(" - rate: 0.2500");
  run(tqdm_bar({.total = steps(), .out = file_}));
  for (const auto& [name, value] : expected_numbers()) {
    expect_shown(fmt::format(", {}={:.3g}", name, value));
  }
  expect_shown(", seen=40");
  expect_shown(", rate=0.25");
}

// The newest of three evaluations, in the history, in the outputs and in the bar, which is drawn in each step.
TEST_P(ReadersOfMetrics, EvaluationsOfFit) {
  float shift = 3;
  const auto result =
      fit(new_state(), rows().repeat(3).batch(20),
          {.tasks = {{"train_step", [] { return logs().add_metric("constant", 1); }}, {"test_step", metrics_step()}},
           .callbacks = {keras_bar({.total = 6, .out = file_})},
           .test_dataset = [&] { return batches(--shift); }});
  EXPECT_EQ(result.outputs.collect("confusion_test").size(), 3u);
  expect_confusion(result.outputs.collect("confusion_test").back());
  const Logs all = aggregate(result.history);
  for (const auto& [name, value] : expected_numbers()) {
    const std::vector<double> evaluations = result.history.column(name + "_test");
    ASSERT_EQ(evaluations.size(), 3u);
    expect_number(evaluations.back(), name);
    expect_number(all.entry_value(name + "_test"), name);
    expect_shown(fmt::format(" - {}_test: {:.4f}", name, value));
  }
}

class MetricsStep : public jaxloop::Step {
 public:
  MetricsStep() : Step(nn::dense(1), {.device = Device::cpu()}) {}
  Logs run(TrainState&, const Batch& batch) override { return log_metrics(batch); }
};

TEST_P(ReadersOfMetrics, OutputsOfJaxloop) {
  MetricsStep step;
  // A batch in which nothing counts does not end the loop.
  const auto stops = std::make_shared<jaxloop::MetricMonitoringStopHandler>("accuracy");
  jaxloop::EvalLoop evaluate(step, {.end_actions = {jaxloop::early_stopping_action(stops)}});
  const auto [state, outputs] = evaluate(step.initialize_model({{"x", {1, 1}}}), batches());
  EXPECT_EQ(outputs["accuracy"].size(), static_cast<std::size_t>(steps()));
  for (const auto& [name, value] : expected_numbers()) expect_number(outputs.mean(name), name);
  expect_number(stops->best(), "accuracy");
  expect_confusion(outputs.array("confusion"));
}

TEST_P(ReadersOfMetrics, SummaryOfFlip) {
  flip::TrainLoop train({.task = {.model = nn::dense(1),
                                  .optimizer = optim::sgd(0.5),
                                  .loss = [](const nn::Var& y, const Batch&) { return mean(y); },
                                  .data = rows().repeat().batch(4)},
                         .n_steps_per_checkpoint = 1,
                         .n_steps = 1,
                         .device = Device::cpu()});
  flip::EvalLoop evaluate({.task = {.metrics = metrics(), .data = batches()}});
  const flip::Summary summary = evaluate(train.next_step());
  for (const auto& [name, metric] : metrics()) expect_number(summary.metric("eval", name), name);
}

}  // namespace
}  // namespace giro
