#include <giro/loop/log/aggregation.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/loop.h>
#include <giro/runtime/files/archive.h>

#include "tests/support/counted_metric.h"
#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

// Batches of 30, 30 and 10 samples that log a = 1, 4, 2. The first and the third also log the loss b = 10, 17.
struct Fixture {
  History history;
  Elapsed elapsed;

  Fixture() {
    step(30, logs().add_metric("a", 1).add_loss("b", 10));
    step(30, logs().add_metric("a", 4));
    step(10, logs().add_metric("a", 2).add_loss("b", 17));
  }
  void step(std::int64_t size, const Logs& logs) {
    elapsed.step_samples = size;
    history.commit(elapsed, logs);
    elapsed.count(size);
  }
  double of(const std::string& key, const Aggregation& aggregation) const {
    return aggregate(history, aggregation).entry_value(key);
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
  // Only the records that have the entry count.
  EXPECT_DOUBLE_EQ(run.of("losses.b", "mean"), (30 * 10 + 10 * 17) / 40.0);
  EXPECT_EQ(run.of("losses.b", "sum"), 27);
}

TEST(Aggregation, Callable) {
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

TEST(Aggregation, StepsWithoutARecordHaveNoWeight) {
  Fixture run;
  run.elapsed.count(100);
  run.elapsed.count(100);
  run.step(100, logs().add_metric("a", 1));
  run.elapsed.count(300);
  EXPECT_DOUBLE_EQ(run.of("a", "mean"), (30 * 1 + 30 * 4 + 10 * 2 + 100 * 1) / 170.0);

  // A loop that logs an entry every second step.
  const auto log = [](const Elapsed& elapsed) { return logs().add_metric("a", elapsed.steps == 0 ? 1 : 0); };
  const auto result = loop(0, std::vector{1, 5, 1, 1}, {{every(2), log}},
                           {.batch_size_fn = [](const int& batch) { return std::int64_t{batch}; }});
  EXPECT_EQ(aggregate(result.history, "mean").entry_value("a"), 0.5);
}

// The second loop's steps begin at 0 again.
TEST(Aggregation, TwoLoopsInOneHistory) {
  Fixture run;
  run.elapsed = {};
  run.step(20, logs().add_metric("a", 5));
  run.step(10, logs().add_metric("a", 6));
  EXPECT_DOUBLE_EQ(run.of("a", "mean"), (30 * 1 + 30 * 4 + 10 * 2 + 20 * 5 + 10 * 6) / 100.0);
}

TEST(Aggregation, KeepsLastArrays) {
  const auto array = [](float value) {
    const auto memory = std::make_shared<std::vector<float>>(2, value);
    return HostArray(Tensor(memory->data(), DType::f32, {2}, Device::cpu()), memory);
  };
  History history;
  Outputs outputs;
  for (const int i : {0, 1, 2}) {
    Logs l = logs().add_metric("a", i).add_output("n", 10 * i);
    if (i < 2) l.add_output("y", array(static_cast<float>(i)));
    history.commit({.steps = i, .step_samples = 1}, l);
    outputs.commit({.steps = i, .step_samples = 1}, l);
  }
  const Logs sums = aggregate(history, outputs, "sum");
  EXPECT_EQ(sums.entry_value("a"), 3);
  EXPECT_EQ(sums.entry_value("outputs.n"), 30);
  ASSERT_EQ(sums.entries().size(), 3u);
  EXPECT_EQ(sums.entries()[2].name, "y");
  EXPECT_EQ(to_host<float>(sums.entries()[2].value.array()->tensor(), Stream(Device::cpu())),
            (std::vector<float>{1, 1}));
  EXPECT_EQ(aggregate(history, "sum").values().size(), 2u);
}

TEST(Aggregation, NoRecords) { EXPECT_TRUE(aggregate(History(), "mean").empty()); }

TEST(Aggregation, Errors) {
  expect_error(ErrorCode::not_found, {"no aggregation 'men'", "'mean'"}, [] { Aggregation("men"); });
  expect_error(ErrorCode::not_found, {"'weighted_mean'", "'unweighted_mean'"}, [] {
    Aggregation{{"metrics", "weighted_mean"}};
  });
}

// The records of a history made by hand have no samples.
TEST(Aggregation, ZeroWeightsCountEqually) {
  History history;
  for (const int value : {1, 2, 6}) history.commit({}, logs().add_metric("a", value));
  EXPECT_EQ(aggregate(history, "mean").entry_value("a"), 3);
  // Next to a record with samples they still weigh nothing.
  history.commit({.step_samples = 4}, logs().add_metric("a", 5));
  EXPECT_EQ(aggregate(history, "mean").entry_value("a"), 5);
}

TEST(Aggregation, WeightsMetricsByTheirCounts) {
  Fixture run;
  const auto counted = [](double value, double count) {
    return logs().add_metric("c", test::counted_metric(value, count));
  };
  run.step(30, counted(1, 2));
  run.step(30, counted(NAN, 0));  // nothing counts
  run.step(10, counted(4, 6));
  EXPECT_EQ(run.of("c", "mean"), (2 * 1 + 6 * 4) / 8.0);
  EXPECT_EQ(run.of("c", "unweighted_mean"), 2.5);
  EXPECT_EQ(run.of("c", "last"), 4);
  EXPECT_FALSE(aggregate(run.history, "mean").schema().find("counts", "metrics/c"));

  Fixture none;
  none.step(1, counted(NAN, 0));
  EXPECT_TRUE(std::isnan(none.of("c", "mean")));

  run.step(10, logs().add_metric("c", 4));
  expect_invalid({"metrics.c", "3 of its 4 records"}, [&] { run.of("c", "mean"); });
}

TEST(Aggregation, PoolsStandardDeviationsByTheirMeans) {
  Fixture run;
  const auto deviation = [](double value, double mean, double count) {
    return logs().add_metric("d", test::counted_metric(value, count, mean));
  };
  run.step(1, deviation(1, 2, 2));  // 1, 3
  run.step(1, deviation(2, 7, 2));  // 5, 9
  EXPECT_DOUBLE_EQ(run.of("d", "mean"), std::sqrt(29 - 4.5 * 4.5));
  EXPECT_EQ(run.of("d", "first"), 1);
  run.step(1, deviation(NAN, 7, 2));
  EXPECT_TRUE(std::isnan(run.of("d", "mean")));
}

TEST(Aggregation, KeepsUserEntriesNamedCounts) {
  Fixture run;
  run.step(1, logs().add_entry("counts", "cats", 3).add_entry("means", "no/such", 4));
  EXPECT_EQ(run.of("counts.cats", "last"), 3);
  EXPECT_EQ(run.of("means.no/such", "last"), 4);
  // Even one with the name of a metric's count.
  run.step(1, logs().add_metric("x", 1).add_entry("counts", "metrics/x", 7));
  run.step(3, logs().add_metric("x", 5).add_entry("counts", "metrics/x", 1));
  EXPECT_EQ(run.of("x", "mean"), 4);
  EXPECT_EQ(run.of("counts.metrics/x", "last"), 1);
}

// The count is known by its role, so no name can be taken for another.
TEST(Aggregation, CountsOfNamesThatLookAlike) {
  Fixture run;
  const auto step = [&](double value, double count) {
    run.step(1, logs().add_metric("y.z", test::counted_metric(value, count)).add_entry("metrics.y", "z", 100));
  };
  step(1, 3);
  step(5, 1);
  EXPECT_EQ(aggregate(run.history, {{"metrics", "mean"}}).value(2), 2);
}

// Logs that are merged, copied by a history or read from its file keep the roles of their entries.
TEST(Aggregation, CountsStayCounts) {
  Fixture run;
  const auto merged = [](double value, double count) {
    Logs logs = giro::logs().add_loss("first", 0);
    logs.merge(giro::logs().add_loss("kl", 1).add_metric("c", test::counted_metric(value, count)));
    return logs;
  };
  run.step(1, merged(1, 2));
  run.step(1, merged(4, 6));
  EXPECT_EQ(run.of("c", "mean"), (2 * 1 + 6 * 4) / 8.0);

  History rebuilt;
  for (const auto& [elapsed, logs] : run.history) rebuilt.commit(elapsed, logs);
  EXPECT_EQ(aggregate(rebuilt, "mean").entry_value("c"), (2 * 1 + 6 * 4) / 8.0);
  EXPECT_EQ(run.history.latest().schema().role(5).part, LogSchema::Part::count);

  Archive archive;
  run.history.persist(archive);
  std::map<std::string, Archive::Lines> lines = archive.lines();
  Archive read = Archive::read(archive.text(), {}, nullptr, std::move(lines));
  History restored;
  restored.persist(read);
  EXPECT_EQ(aggregate(restored, "mean").entry_value("c"), (2 * 1 + 6 * 4) / 8.0);
}

}  // namespace
}  // namespace giro
