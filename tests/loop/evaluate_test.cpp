#include <giro/loop/evaluate.h>

#include <gtest/gtest.h>

#include <vector>

#include "tests/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

TEST(WeightedMean, WeighsBySamples) {
  const Logs mean = weighted_mean({{logs().add_metric("a", 1).add_loss("b", 10), 30},
                                   {logs().add_metric("a", 4), 10}});
  EXPECT_EQ(mean.entry_value("metrics.a"), 1.75);
  EXPECT_EQ(mean.entry_value("losses.b"), 10);  // over the batches that have it
}

TEST(WeightedMean, Errors) {
  expect_error(ErrorCode::invalid_argument, {"no samples"}, [] { weighted_mean({}); });
  expect_error(ErrorCode::invalid_argument, {"no samples"}, [] { weighted_mean({{logs().add_metric("a", 1), 0}}); });
}

TEST(Evaluate, EveryBatchCountsByItsSize) {
  const std::vector<std::vector<double>> batches{{1, 2, 3}, {4, 5, 6}, {100}};
  int calls = 0;
  const auto step = [&](int& state, const std::vector<double>& batch) {
    ++calls;
    double sum = 0;
    for (const double x : batch) sum += x;
    return logs().add_metric("mean", sum / static_cast<double>(batch.size())).add_metric("state", state);
  };
  int state = 7;
  const Logs result = evaluate(state, batches, step);
  EXPECT_EQ(calls, 3);
  EXPECT_DOUBLE_EQ(result.entry_value("mean"), 121.0 / 7);
  EXPECT_EQ(result.entry_value("state"), 7);
}

TEST(Evaluate, NothingToEvaluate) {
  int state = 0;
  expect_error(ErrorCode::invalid_argument, {"nothing to evaluate"}, [&] {
    evaluate(state, std::vector<int>{}, [](int&, int) { return Logs(); });
  });
}

}  // namespace
}  // namespace giro
