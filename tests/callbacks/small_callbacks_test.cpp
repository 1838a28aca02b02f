#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <giro/callbacks/learning_rate_monitor.h>
#include <giro/callbacks/noop.h>
#include <giro/callbacks/terminate_on_nan.h>
#include <giro/callbacks/timer.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/learning_rate.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/log/aggregation.h>
#include <giro/loop/loop.h>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

const double kNaN = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

// Logs values[step] as a metric and its negative as a loss.
auto log_in_turn(std::vector<double> values) {
  return [values](const Elapsed& elapsed) {
    const double value = values.at(static_cast<std::size_t>(elapsed.steps));
    return logs().add_metric("accuracy", value).add_loss("kl", std::isfinite(value) ? -value : 0);
  };
}

TEST(TerminateOnNan, StopsAndNamesTheNonFiniteEntry) {
  for (const double bad : {kNaN, -kNaN, kInfinity, -kInfinity}) {
    const TerminateOnNan stop = terminate_on_nan();
    const auto result = loop(0, std::vector<int>(6), {{every(1), {log_in_turn({1, 2, bad, 4, 5, 6}), stop}}});
    EXPECT_EQ(result.elapsed.steps, 3);
    EXPECT_EQ(result.history.size(), 3u);
    EXPECT_EQ(stop.report(), std::isnan(bad) ? "metrics.accuracy is nan at step 2"
                             : bad > 0       ? "metrics.accuracy is inf at step 2"
                                             : "metrics.accuracy is -inf at step 2");
    // A run that ends normally has nothing to report.
    EXPECT_EQ(loop(0, std::vector<int>(2), {{every(1), {log_in_turn({1, 2}), stop}}}).elapsed.steps, 2);
    EXPECT_EQ(stop.report(), "");
  }
}

TEST(TerminateOnNan, ChecksOnlyTheGivenKeys) {
  const auto steps = [](const TerminateOnNan& stop) {
    const auto log = [](const Elapsed&) { return logs().add_metric("a", kNaN).add_metric("b", 1).add_loss("c", kNaN); };
    return loop(0, std::vector<int>(3), {{every(1), {log, stop}}}).elapsed.steps;
  };
  EXPECT_EQ(steps(terminate_on_nan("b")), 3);
  EXPECT_EQ(steps(terminate_on_nan("b", "losses.c")), 1);
  const TerminateOnNan all = terminate_on_nan();
  EXPECT_EQ(steps(all), 1);
  EXPECT_EQ(all.report(), "metrics.a is nan, losses.c is nan at step 0");
}

TEST(TerminateOnNan, IgnoresOtherCollections) {
  const auto log = [] { return logs().add_entry("outputs", "y", kNaN).add_entry("mine", "x", kNaN); };
  EXPECT_EQ(loop(0, std::vector<int>(3), {{every(1), {log, terminate_on_nan()}}}).elapsed.steps, 3);
}

TEST(TerminateOnNan, FindsNanLoggedBetweenItsCalls) {
  const auto result = loop(0, std::vector<int>(12),
                           {{every(1), log_in_turn({1, 2, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN})},
                            {every(4), terminate_on_nan("accuracy")}});
  EXPECT_EQ(result.elapsed.steps, 5);
}

TEST(TerminateOnNan, SuggestsNearestEntryForUnknownKey) {
  expect_error(ErrorCode::not_found, {"terminate_on_nan", "'acuracy'", "did you mean 'accuracy'"}, [] {
    (void)loop(0, std::vector<int>(1), {{every(1), {log_in_turn({1}), terminate_on_nan("acuracy")}}});
  });
}

TEST(Timer, ReportsRatesBetweenCalls) {
  Timer time = timer();
  EXPECT_FALSE(time({.steps = 10, .samples = 320, .date = 1000, .date_start = 900}));
  const std::optional<Logs> rates = time({.steps = 30, .samples = 960, .date = 1004, .date_start = 900});
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->entry_value("metrics.steps_per_second"), 5);
  EXPECT_EQ(rates->entry_value("metrics.samples_per_second"), 160);
  EXPECT_FALSE(time({.steps = 31, .samples = 992, .date = 1004, .date_start = 900}));
  EXPECT_FALSE(time({.steps = 32, .samples = 992, .date = 1000, .date_start = 900}));
  EXPECT_EQ(time({.steps = 33, .samples = 992, .date = 1002, .date_start = 900})->entry_value("steps_per_second"), 0.5);
}

TEST(Timer, LogsIntoTheHistory) {
  // A step that takes a measurable time on the loop's clock.
  const auto step = [](int&) {
    for (const double before = Elapsed::now(); Elapsed::now() <= before;) continue;
  };
  const auto result = loop(0, std::vector<int>(7), {{every(1), step}, {every(3), timer()}});
  const auto [steps, rates] = result.history.collect("steps", "steps_per_second");
  EXPECT_EQ(steps, (std::vector<double>{3, 6}));
  for (const double rate : rates) EXPECT_GT(rate, 0);
  EXPECT_EQ(aggregate(result.history).entry_value("steps_per_second"), rates.back());
}

TEST(Noop, KeepsNoDeviceWaiting) {
  EXPECT_EQ((Callback<State, int>(noop()).kind()), CallbackKind::observer);
  const auto result = loop(3, std::vector<int>(4), {{every(1), noop()}});
  EXPECT_EQ(result.state, 3);
  EXPECT_EQ(result.history.size(), 0u);
}

TEST(LearningRateMonitor, LogsTheRateOfTheLatestUpdate) {
  TrainState initial = TrainState::create(nn::dense(1), optim::sgd(optim::warmup(/*peak=*/1, /*steps=*/4)),
                                          {.inputs = {{"x", DType::f32, {1, 2}}}, .context = Device::cpu()});
  const auto update = [](TrainState& state) { state.apply_gradients(); };
  const auto [state, history, elapsed] =
      loop(std::move(initial), std::vector<int>(6), {{every(1), {update, learning_rate_monitor()}}});
  EXPECT_EQ(history.collect("metrics.learning_rate")[0], (std::vector<double>{0, 0.25, 0.5, 0.75, 1, 1}));
  EXPECT_EQ(aggregate(history).entry_value("learning_rate"), 1);  // not a mean
}

TEST(LearningRateMonitor, NamesTheMissingLeaf) {
  State state(Device::cpu());
  state.add("learning_rates", {{"", DType::f32, {}}});
  expect_error(ErrorCode::not_found, {"learning_rate", "learning_rates"}, [&] { learning_rate_monitor()(state); });
}

}  // namespace
}  // namespace giro
