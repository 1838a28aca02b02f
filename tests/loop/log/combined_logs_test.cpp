#include <giro/loop/log/combined_logs.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/log/aggregation.h>
#include <giro/loop/log/history.h>
#include <giro/loop/log/outputs.h>
#include <giro/runtime/files/archive.h>

#include "tests/support/counted_metric.h"
#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::counted_metric;
using test::expect_error;
using Rule = LogSchema::Rule;

// As a step that logs a confusion matrix sends it.
Logs total_of(HostArray array) {
  LogSchema schema;
  schema.add("outputs", "total", {.rule = Rule::sum});
  return Logs(std::move(schema), {std::move(array)});
}
Logs total_of(std::vector<std::int64_t> values) { return total_of(HostArray(std::move(values))); }
std::vector<std::int64_t> integers_of(const LogValue& value) {
  return to_host<std::int64_t>(value.array()->tensor(), Stream(Device::cpu()));
}

TEST(CombinedLogs, EachRule) {
  CombinedLogs all;
  const auto step = [&](double value, std::int64_t samples, double count) {
    all.add(logs()
                .add_metric("plain", value)
                .add_metric("counted", counted_metric(value, count))
                .add_stateful_metric("stateful", value)
                .add_stateful_metric("newest", counted_metric(value, count))
                .add_entry("metrics", "rate", value, Rule::last)
                .add_entry("metrics", "sum", value, Rule::sum),
            samples);
  };
  step(1, 3, 1);
  step(5, 1, 3);
  step(2, 0, 0);  // a step without samples, in which nothing counts
  const Logs combined = all.logs();
  EXPECT_EQ(combined.schema().size(), 6u);  // without counts
  EXPECT_EQ(combined.entry_value("plain"), 2);
  EXPECT_EQ(combined.entry_value("counted"), 4);
  EXPECT_EQ(combined.entry_value("stateful"), 2);
  EXPECT_EQ(combined.entry_value("newest"), 5);
  EXPECT_EQ(combined.entry_value("rate"), 2);
  EXPECT_EQ(combined.entry_value("sum"), 8);
  EXPECT_EQ(all.last(0), 2);
}

TEST(CombinedLogs, NothingCounts) {
  CombinedLogs all;
  EXPECT_EQ(all.schema().size(), 0u);
  all.add(logs().add_metric("counted", counted_metric(NAN, 0)), 4);
  EXPECT_TRUE(std::isnan(all.logs().entry_value("counted")));
  EXPECT_TRUE(std::isnan(all.last(0)));
}

TEST(CombinedLogs, LogsInChangingOrder) {
  CombinedLogs all;
  all.add(logs().add_metric("a", 1).add_metric("b", counted_metric(10, 1)), 1);
  all.add(logs().add_metric("b", counted_metric(30, 3)).add_metric("c", 7).add_metric("a", 3), 1);
  all.add(logs().add_metric("a", 5), 1);
  EXPECT_EQ(all.logs().entry_value("a"), 3);
  EXPECT_EQ(all.logs().entry_value("b"), 25);
  EXPECT_EQ(all.logs().entry_value("c"), 7);
}

// A variance far smaller than the mean's square keeps its digits.
TEST(CombinedLogs, DeviationFarFromZero) {
  CombinedLogs all;
  for (const double offset : {0.0, 2.0}) {
    all.add(logs().add_metric("d", counted_metric(1, 2, 1e9 + offset)), 2);  // elements at offset - 1 and offset + 1
  }
  EXPECT_EQ(all.logs().entry_value("d"), std::sqrt(2.0));
}

TEST(CombinedLogs, AddsTotals) {
  CombinedLogs all;
  all.add_arrays(total_of({1, 2, 3}));
  all.add_arrays(total_of({10, 20, 30}).add_output("other", HostArray(std::vector<std::int64_t>{4})));
  const CombinedLogs before = all;
  all.add_arrays(total_of({100, 200, 300}).add_output("other", HostArray(std::vector<std::int64_t>{5})));
  EXPECT_EQ(integers_of(all.value(0)), (std::vector<std::int64_t>{111, 222, 333}));
  EXPECT_EQ(integers_of(all.value(1)), (std::vector<std::int64_t>{5}));
  EXPECT_EQ(integers_of(before.value(0)), (std::vector<std::int64_t>{11, 22, 33}));
  expect_error(ErrorCode::shape_mismatch, {"'total'", "i64(2,)", "i64(3,)"}, [&] { all.add_arrays(total_of({1, 2})); });
  expect_error(ErrorCode::dtype_mismatch, {"'total'", "f32(3,)", "i64(3,)"}, [&] {
    all.add_arrays(total_of(HostArray(std::vector<float>{1, 2, 3})));
  });
}

TEST(CombinedLogs, ResumesInTheMiddle) {
  const auto step = [](CombinedLogs& all, int i) {
    all.add(logs()
                .add_metric("plain", i * i)
                .add_metric("deviation", counted_metric(i, 1 + i, 2 * i))
                .add_stateful_metric("stateful", i)
                .add_entry("metrics", "sum", i, Rule::sum),
            1 + i);
  };
  CombinedLogs whole, first, second;
  for (int i = 0; i < 3; ++i) step(whole, i), step(first, i);
  Archive archive;
  first.persist(archive);
  Archive read = Archive::read(archive.text());
  second.persist(read);
  for (int i = 3; i < 6; ++i) step(whole, i), step(second, i);
  for (std::size_t i = 0; i < whole.schema().size(); ++i) {
    EXPECT_EQ(second.schema()[i].path(), whole.schema()[i].path());
    EXPECT_EQ(second.value(i).value(), whole.value(i).value());
  }
}

TEST(CombinedLogs, RejectsWhatItCannotHaveSaved) {
  CombinedLogs all;
  all.add(logs().add_metric("a", 1).add_metric("b", 2), 1);
  Archive archive;
  all.persist(archive);
  const auto expect_corrupt = [&](const std::string& from, const std::string& to, const std::string& part) {
    std::string text = archive.text();
    text.replace(text.find(from), from.size(), to);
    Archive read = Archive::read(text);
    expect_error(ErrorCode::corrupt_data, {part}, [&] { CombinedLogs().persist(read); });
  };
  expect_corrupt(R"("rule": 0)", R"("rule": 3)", "the rule 3");
  expect_corrupt(R"("name": "b")", R"("name": "a")", "'metrics.a' is there twice");
}

// What a loop has shown as a whole is not averaged again, in whatever form the logs have been kept.
TEST(CombinedLogs, OfResultsTheNewestCounts) {
  History history;
  Outputs outputs;
  for (const int evaluation : {1, 2, 3}) {
    History inner;
    Outputs inner_outputs;
    for (const int batch : {0, 10}) {
      const Logs logs = total_of({evaluation}).add_metric("a", evaluation + batch);
      inner.commit({.step_samples = 1}, logs.numbers());
      inner_outputs.commit({.step_samples = 1}, logs);
    }
    const Logs result = aggregate(inner, inner_outputs);
    EXPECT_EQ(result.entry_value("a"), evaluation + 5);
    history.commit({.step_samples = 1}, result);
    outputs.commit({.step_samples = 1}, result);
  }
  EXPECT_EQ(aggregate(history, outputs).entry_value("a"), 8);
  EXPECT_EQ(integers_of(aggregate(history, outputs).values()[1]), (std::vector<std::int64_t>{6}));

  Archive archive;
  history.persist(archive);
  Archive read = Archive::read(archive.text(), {}, nullptr, archive.lines());
  History restored;
  restored.persist(read);
  EXPECT_EQ(aggregate(restored).entry_value("a"), 8);
}

}  // namespace
}  // namespace giro
