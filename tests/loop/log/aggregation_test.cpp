#include <giro/loop/log/aggregation.h>

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "tests/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

// Batches of 30, 30 and 10 samples, which log a = 1, 4, 2 and, but for the second, the loss b = 10, 17.
struct Fixture {
  History history;
  Elapsed elapsed;

  Fixture() {
    step(30, logs().add_metric("a", 1).add_loss("b", 10));
    step(30, logs().add_metric("a", 4));
    step(10, logs().add_metric("a", 2).add_loss("b", 17));
  }
  void step(std::int64_t size, const Logs& logs) {
    history.commit(elapsed, logs);
    elapsed.count(size);
  }
  double of(const std::string& key, const Aggregation& aggregation) const {
    return aggregate(history, elapsed, aggregation).entry_value(key);
  }
};

TEST(Aggregation, ByName) {
  const Fixture run;
  EXPECT_EQ(run.of("a", "last"), 2);
  EXPECT_EQ(run.of("a", "first"), 1);
  EXPECT_EQ(run.of("a", "sum"), 7);
  EXPECT_EQ(run.of("a", "min"), 1);
  EXPECT_EQ(run.of("a", "max"), 4);
  EXPECT_DOUBLE_EQ(run.of("a", "unweighted_mean"), 7.0 / 3);
  EXPECT_DOUBLE_EQ(run.of("a", "mean"), (30 * 1 + 30 * 4 + 10 * 2) / 70.0);
  // Over the records that have it.
  EXPECT_DOUBLE_EQ(run.of("losses.b", "mean"), (30 * 10 + 10 * 17) / 40.0);
  EXPECT_EQ(run.of("losses.b", "sum"), 27);
}

TEST(Aggregation, ACallable) {
  const Fixture run;
  const auto range = [](std::span<const double> values) { return values[1] - values[0]; };
  EXPECT_EQ(run.of("a", range), 3);
  EXPECT_EQ(run.of("b", range), 7);
}

TEST(Aggregation, ByCollection) {
  const Fixture run;
  const Aggregation aggregation{{"metrics", "sum"},
                                {"losses", [](std::span<const double> values) { return values[0]; }}};
  EXPECT_EQ(run.of("a", aggregation), 7);
  EXPECT_EQ(run.of("b", aggregation), 10);
  // The others keep their last value.
  EXPECT_EQ(run.of("b", {{"metrics", "sum"}}), 17);
}

TEST(Aggregation, StepsWithoutARecord) {
  Fixture run;
  run.elapsed.count(100);  // of the two steps from 70 to 270 samples, the first has a record
  run.elapsed.count(100);
  run.step(100, logs().add_metric("a", 1));
  run.elapsed.count(300);
  // The third record stands before three steps of 210 samples, the last before two of 400.
  EXPECT_DOUBLE_EQ(run.of("a", "mean"), (30 * 1 + 30 * 4 + 70 * 2 + 200 * 1) / 330.0);
}

TEST(Aggregation, NoRecords) { EXPECT_TRUE(aggregate(History(), Elapsed(), "mean").empty()); }

TEST(Aggregation, Errors) {
  expect_error(ErrorCode::not_found, {"no aggregation 'men'", "'mean'"}, [] { Aggregation("men"); });
  expect_error(ErrorCode::not_found, {"'weighted_mean'", "'unweighted_mean'"}, [] {
    Aggregation{{"metrics", "weighted_mean"}};
  });
  expect_error(ErrorCode::invalid_argument, {"mean", "found 0"}, [] {
    History history;
    history.commit({}, logs().add_metric("a", 1));
    aggregate(history, {.steps = 1}, "mean");
  });
}

}  // namespace
}  // namespace giro
