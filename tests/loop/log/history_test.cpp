#include <giro/loop/log/history.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <giro/runtime/files/archive.h>

#include "tests/support/expect_error.h"
#include "tests/support/heap_bytes.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;
using test::heap_bytes;
using Values = std::vector<double>;
using Rows = std::vector<std::vector<std::string>>;

Elapsed elapsed_of(std::int64_t steps) { return {steps, 10 * steps, 1'000.5 + static_cast<double>(steps), 1'000.5}; }

TEST(History, CollectsColumns) {
  History h = history();
  for (int i = 0; i < 3; ++i) h.commit(elapsed_of(i), logs().add_metric("a", i + 1).add_loss("b", -i - 1));
  EXPECT_EQ(h.size(), 3u);
  const auto [a, b] = h.collect("a", "b");
  EXPECT_EQ(a, (Values{1, 2, 3}));
  EXPECT_EQ(b, (Values{-1, -2, -3}));
  EXPECT_EQ(h.collect("losses.b")[0], b);
}

TEST(History, RecordsHaveElapsedEntries) {
  History h;
  for (const int i : {0, 4}) h.commit(elapsed_of(i), logs().add_metric("a", 1));
  const auto [steps, samples, date, date_start, time] = h.collect("steps", "samples", "date", "date_start", "time");
  EXPECT_EQ(steps, (Values{0, 4}));
  EXPECT_EQ(samples, (Values{0, 40}));
  EXPECT_EQ(date, (Values{1'000.5, 1'004.5}));
  EXPECT_EQ(date_start, (Values{1'000.5, 1'000.5}));
  EXPECT_EQ(time, (Values{0, 4}));
  EXPECT_EQ(h.collect("elapsed.steps")[0], steps);
}

TEST(History, CollectsRecordsThatHaveAllKeys) {
  History h;
  for (int i = 0; i < 12; ++i) {
    Logs l;
    if (i != 5) l.add_metric("a", i);
    if (i % 2 == 0) l.add_metric("even", i);
    if (i % 3 == 0) l.add_metric("third", i);
    if (i >= 9) l.add_metric("late", i);
    h.commit(elapsed_of(i), l);
  }
  EXPECT_EQ(h.size(), 12u);
  EXPECT_EQ(h.collect("a")[0], (Values{0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11}));
  const auto [steps, even, third] = h.collect("steps", "even", "third");
  EXPECT_EQ(steps, (Values{0, 6}));
  EXPECT_EQ(even, steps);
  EXPECT_EQ(third, steps);
  const auto [late, late_steps] = h.collect("late", "steps");
  EXPECT_EQ(late, (Values{9, 10, 11}));
  EXPECT_EQ(late_steps, late);
  EXPECT_EQ(h.collect("late", "even", "third")[0], Values{});
}

TEST(History, OrderOfEntriesMayChange) {
  History h;
  h.commit(elapsed_of(0), logs().add_metric("a", 1).add_metric("b", 2));
  h.commit(elapsed_of(1), logs().add_metric("b", 4).add_metric("c", 5).add_metric("a", 3));
  const auto [a, b] = h.collect("a", "b");
  EXPECT_EQ(a, (Values{1, 3}));
  EXPECT_EQ(b, (Values{2, 4}));
  EXPECT_EQ(h.collect("c")[0], Values{5});
}

// The history of a continued run keeps the times of its first part.
TEST(History, DateStartMayChange) {
  History h;
  h.commit({.steps = 0, .samples = 0, .date = 105, .date_start = 100}, logs().add_metric("a", 1));
  h.commit({.steps = 1, .samples = 2, .date = 106, .date_start = 100}, logs().add_metric("b", 1));
  h.commit({.steps = 2, .samples = 4, .date = 1'007, .date_start = 1'000}, logs().add_metric("b", 1));
  h.commit({.steps = 3, .samples = 6, .date = 1'008, .date_start = 1'000}, logs().add_metric("a", 1));
  h.commit({.steps = 4, .samples = 8, .date = 5'009, .date_start = 5'000}, logs().add_metric("a", 1));
  const auto [time, date_start] = h.collect("time", "date_start");
  EXPECT_EQ(time, (Values{5, 6, 7, 8, 9}));
  EXPECT_EQ(date_start, (Values{100, 100, 1'000, 1'000, 5'000}));
  EXPECT_EQ(h.collect("time", "a")[0], (Values{5, 8, 9}));
  Values times;
  for (const auto& record : h) times.push_back(record.elapsed.time());
  EXPECT_EQ(times, time);
}

TEST(History, Latest) {
  History h;
  EXPECT_TRUE(h.latest().empty());
  h.commit(elapsed_of(0), logs().add_metric("a", 1).add_loss("a", 2));
  h.commit(elapsed_of(1), logs().add_metric("b", 3).add_metric("a", 4));
  h.commit(elapsed_of(2), logs().add_metric("b", 5));
  const Logs all = h.latest();
  EXPECT_EQ(all.entries().size(), 3u);
  EXPECT_EQ(all.entry_value("metrics.a"), 4);
  EXPECT_EQ(all.entry_value("losses.a"), 2);
  EXPECT_EQ(all.entry_value("b"), 5);
  const Logs from_one = h.latest(1);
  EXPECT_EQ(from_one.entries().size(), 2u);
  EXPECT_EQ(from_one.entry_value("a"), 4);
  EXPECT_EQ(h.latest(2).values().size(), 1u);
  EXPECT_TRUE(h.latest(3).empty());
}

TEST(History, RecordsInOrder) {
  static_assert(std::input_iterator<History::Iterator>);
  History h;
  EXPECT_TRUE(h.begin() == h.end());
  std::vector<Logs> committed;
  for (int i = 0; i < 30; ++i) {
    Logs l;
    if (i % 7 != 0) l.add_metric("a", i);
    if (i % 2 == 0) l.add_loss("b", -i);
    if (i >= 20) l.add_metric("late", 2 * i);
    Elapsed elapsed = elapsed_of(i);
    elapsed.step_samples = i / 4;
    elapsed.date_start -= i / 9;
    elapsed.date -= i / 9;
    h.commit(elapsed, l);
    committed.push_back(l);
    const auto [last_elapsed, last_logs] = h.back();
    EXPECT_EQ(last_elapsed.steps, i);
    EXPECT_EQ(last_elapsed.step_samples, i / 4);
    EXPECT_EQ(last_elapsed.time(), i);
    ASSERT_EQ(last_logs.schema(), h[h.size() - 1].logs.schema());
    for (const Logs::Entry& entry : l.entries()) EXPECT_EQ(last_logs.entry_value(entry.name), entry.value.value());
  }
  std::size_t i = 0;
  for (const auto& [elapsed, logs] : h) {
    EXPECT_EQ(elapsed.steps, static_cast<std::int64_t>(i));
    EXPECT_EQ(elapsed.samples, 10 * elapsed.steps);
    EXPECT_EQ(elapsed.time(), static_cast<double>(i));
    ASSERT_EQ(logs.entries().size(), committed[i].entries().size()) << "record " << i;
    for (const Logs::Entry& entry : logs.entries()) {
      EXPECT_EQ(entry.value.value(), committed[i].entry_value(entry.name)) << "record " << i;
    }
    const auto [same_elapsed, same_logs] = h[i];
    EXPECT_EQ(same_elapsed.steps, elapsed.steps);
    EXPECT_EQ(same_elapsed.step_samples, elapsed.step_samples);
    EXPECT_EQ(same_elapsed.date_start, elapsed.date_start);
    ASSERT_EQ(same_logs.schema(), logs.schema());
    for (std::size_t k = 0; k < logs.values().size(); ++k) EXPECT_EQ(same_logs.value(k), logs.value(k));
    ++i;
  }
  EXPECT_EQ(i, 30u);
  expect_invalid({"record 30", "history has 30 records"}, [&] { h[30]; });
  expect_invalid({"history has no records"}, [] { History().back(); });
}

TEST(History, SingleColumn) {
  History h;
  for (int i = 0; i < 3; ++i) h.commit(elapsed_of(i), i == 1 ? logs() : logs().add_metric("a.b", i));
  const Values a = h.column("a.b");
  EXPECT_EQ(a, (Values{0, 2}));
  EXPECT_EQ(h.column("metrics.a.b"), a);
  EXPECT_EQ(h.column("steps"), (Values{0, 1, 2}));
}

// Each record has the samples of its own step, whatever the records before and after it have.
TEST(History, KeepsTheSamplesOfEachStep) {
  History h;
  const Values sizes{32, 32, 5, 32, 0};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    h.commit({.steps = static_cast<std::int64_t>(i), .step_samples = static_cast<std::int64_t>(sizes[i])},
             i == 1 ? logs() : logs().add_metric("a", i));
  }
  EXPECT_EQ(h.column("step_samples"), sizes);
  EXPECT_EQ(h.collect("a", "elapsed.step_samples")[1], (Values{32, 5, 32, 0}));
  EXPECT_EQ(h[2].elapsed.step_samples, 5);
}

TEST(History, CopiesAndMovesContinue) {
  History h;
  h.commit(elapsed_of(0), logs().add_metric("a", 1));
  History copy = h;
  h.commit(elapsed_of(1), logs().add_metric("a", 2));
  copy.commit(elapsed_of(5), logs().add_metric("a", 3));
  const History moved = std::move(h);
  EXPECT_EQ(moved.collect("a")[0], (Values{1, 2}));
  EXPECT_EQ(copy.collect("a")[0], (Values{1, 3}));
}

TEST(History, FailedRecordLeavesNoTrace) {
  History h;
  h.commit(elapsed_of(0), logs().add_metric("a", 1));
  expect_invalid({"'elapsed.steps'"},
                 [&] { h.commit(elapsed_of(1), logs().add_metric("b", 2).add_entry("elapsed", "steps", 3)); });
  EXPECT_EQ(h.size(), 1u);
  expect_error(ErrorCode::not_found, {"'b'"}, [&] { h.collect("b"); });
}

// Random logs, compared with a history kept in a simple way.
TEST(History, CollectsWhatWasCommitted) {
  std::mt19937 random(1);
  const std::vector<std::string> names{"a", "b", "c", "d"};
  History h;
  std::vector<std::map<std::string, double>> records;
  for (int i = 0; i < 3'000; ++i) {
    std::map<std::string, double> record;
    Logs l;
    // The choice and order of entries change in stretches, so that there are long and short runs of equal records.
    const bool backwards = i / 50 % 3 == 1;
    for (std::size_t k = 0; k < names.size(); ++k) {
      const std::string& name = names[backwards ? names.size() - 1 - k : k];
      if (i / 100 % 2 == 0 ? random() % 4 == 0 : name == "c") continue;
      record[name] = static_cast<double>(random());
      l.add_metric(name, record[name]);
    }
    h.commit(elapsed_of(i), l);
    record["steps"] = i;
    records.push_back(record);
  }
  for (const auto& keys : std::vector<std::array<std::string, 3>>{
           {"a", "b", "c"}, {"c", "steps", "d"}, {"d", "d", "steps"}, {"steps", "steps", "b"}}) {
    std::array<Values, 3> expected;
    for (const auto& record : records) {
      if (!std::all_of(keys.begin(), keys.end(), [&](const auto& key) { return record.count(key) > 0; })) continue;
      for (std::size_t k = 0; k < 3; ++k) expected[k].push_back(record.at(keys[k]));
    }
    EXPECT_EQ(h.collect(keys[0], keys[1], keys[2]), expected);
  }
}

TEST(History, MillionStepsOfFourEntriesTakeLessThan64Megabytes) {
  const Logs step = logs().add_loss("a", 1).add_metric("b", 2).add_metric("c", 3).add_stateful_metric("d", 4);
  const Logs gap = logs().add_loss("a", 1);
  const std::size_t before = heap_bytes();
  std::size_t most = 0;
  History h;
  for (int i = 0; i < 1'000'000; ++i) {
    h.commit(elapsed_of(i), i % 1'000 == 77 ? gap : step);
    if (i % 500 == 0) most = std::max(most, heap_bytes());
  }
  most = std::max(most, heap_bytes());
  EXPECT_LT(most - before, 64'000'000u);
  EXPECT_GT(most - before, 55'000'000u) << "what was measured cannot be the history";
  RecordProperty("bytes", std::to_string(most - before));
  EXPECT_EQ(h.collect("d")[0].size(), 999'000u);
}

TEST(History, NameInTwoCollectionsIsAmbiguous) {
  History h;
  h.commit(elapsed_of(0), logs().add_loss("loss", 1, /*add_metric=*/true).add_metric("steps", 7));
  expect_invalid({"'loss'", "'losses.loss'", "'metrics.loss'"}, [&] { h.collect("loss"); });
  expect_invalid({"'elapsed.steps'", "'metrics.steps'"}, [&] { h.collect("steps"); });
  h.commit(elapsed_of(1), logs().add_entry("mine", "loss", 2));
  expect_invalid({"'losses.loss'", "'metrics.loss'", "'mine.loss'"}, [&] { h.collect("loss"); });
  EXPECT_EQ(h.collect("metrics.loss")[0], Values{1});
  EXPECT_EQ(h.collect("metrics.steps", "elapsed.steps"), (std::array{Values{7}, Values{0}}));
}

TEST(History, UnknownKeyNamesTheNearest) {
  History h;
  expect_error(ErrorCode::not_found, {"'loss'", "no records"}, [&] { h.collect("loss"); });
  h.commit(elapsed_of(0), logs().add_metric("loss", 1).add_metric("accuracy", 1));
  expect_error(ErrorCode::not_found, {"'los'", "'loss'"}, [&] { h.collect("los"); });
  expect_error(ErrorCode::not_found, {"'sampels'", "'samples'"}, [&] { h.collect("sampels"); });
  expect_error(ErrorCode::not_found, {"'metric.loss'", "'metrics.loss'"}, [&] { h.collect("loss", "metric.loss"); });
  expect_error(ErrorCode::not_found, {"'elapsed.step'", "'elapsed.steps'"}, [&] { h.collect("elapsed.step"); });
}

class HistoryFiles : public ::testing::Test {
 protected:
  std::string path() const { return directory_ / "history"; }
  Rows read() const {
    std::ifstream file(path());
    Rows rows;
    for (std::string line; std::getline(file, line);) {
      rows.emplace_back();
      std::stringstream cells(line + ",");
      for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
    }
    return rows;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(HistoryFiles, CsvHasOneLinePerRecord) {
  History h;
  h.commit(elapsed_of(0), logs().add_metric("a", 1));
  h.commit(elapsed_of(1), logs().add_metric("b", 2));
  h.commit(elapsed_of(3), logs().add_metric("a", 0.5).add_metric("b", 2.25));
  h.write_csv(path());
  EXPECT_EQ(read(), (Rows{{"steps", "samples", "time", "a", "b"},
                          {"0", "0", "0", "1", ""},
                          {"1", "10", "1", "", "2"},
                          {"3", "30", "3", "0.5", "2.25"}}));
}

TEST_F(HistoryFiles, CsvNamesDependOnlyOnTheEntry) {
  History h;
  h.commit(elapsed_of(0), logs().add_loss("loss", 1, true).add_metric("steps", 2).add_metric("a.b", 3));
  h.write_csv(path());
  EXPECT_EQ(read().front(), (std::vector<std::string>{"steps", "samples", "time", "loss", "losses.loss",
                                                      "metrics.steps", "metrics.a.b"}));
}

TEST_F(HistoryFiles, CsvNumbersKeepTheirBits) {
  Values values{0.1,
                static_cast<double>(0.1f),
                -0.0,
                1e-310,
                1.0 / 3,
                1e300,
                123456789.123456789,
                std::numeric_limits<double>::infinity(),
                -std::numeric_limits<double>::infinity()};
  for (int i = 0; i < 100; ++i) values.push_back(std::sin(i) * std::pow(10, i % 40 - 20));
  History h;
  for (std::size_t i = 0; i < values.size(); ++i) {
    h.commit(elapsed_of(static_cast<std::int64_t>(i)), logs().add_metric("a", values[i]));
  }
  h.commit(elapsed_of(0), logs().add_metric("a", -std::numeric_limits<double>::quiet_NaN()));
  h.write_csv(path());
  const Rows rows = read();
  ASSERT_EQ(rows.size(), values.size() + 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = std::strtod(rows[i + 1][3].c_str(), nullptr);
    EXPECT_EQ(std::memcmp(&value, &values[i], sizeof value), 0) << rows[i + 1][3];
  }
  EXPECT_EQ(rows.back()[3], "nan");
}

// A history restored from a checkpoint therefore has the same bits.
TEST_F(HistoryFiles, DropsTheSignOfNaN) {
  History h;
  h.commit(elapsed_of(0), logs().add_metric("a", -std::numeric_limits<double>::quiet_NaN()));
  const double kept = h.collect("a")[0][0], plain = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(std::memcmp(&kept, &plain, sizeof kept), 0);
}

TEST_F(HistoryFiles, CsvReplacesTheFile) {
  std::ofstream(path()) << "old\n";
  History().write_csv(path());
  EXPECT_EQ(read(), (Rows{{"steps", "samples", "time"}}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1);
}

TEST_F(HistoryFiles, CreatesTheDirectory) {
  History h;
  h.commit({}, logs().add_metric("a", 1));
  h.write_csv(directory_ / "a/b/h.csv");
  h.write_jsonl(directory_ / "c/h.jsonl");
  h.write_npy("a", directory_ / "d/h.npy");
  for (const char* name : {"a/b/h.csv", "c/h.jsonl", "d/h.npy"}) EXPECT_NE(test::read_text(directory_ / name), "");
  expect_error(ErrorCode::io, {"h.csv/x"}, [&] { h.write_csv(directory_ / "a/b/h.csv/x/h.csv"); });
}

TEST_F(HistoryFiles, CsvQuotesNames) {
  History h;
  h.commit(
      elapsed_of(0),
      logs().add_metric("a,b", 1).add_metric("say \"hi\"", 2).add_metric("two\nlines", 3).add_metric("plain; name", 4));
  h.write_csv(path());
  EXPECT_EQ(test::read_text(path()),
            "steps,samples,time,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",plain; name\n0,0,0,1,2,3,4\n");
}

TEST_F(HistoryFiles, JsonlNestsByCollection) {
  History h;
  h.commit(elapsed_of(0), logs());
  h.commit(elapsed_of(1), logs().add_metric("a", 0.5).add_loss("a", 2).add_metric("say \"hi\"\n", 3));
  h.commit(elapsed_of(2), logs().add_loss("a", 4));
  h.write_jsonl(path());
  EXPECT_EQ(test::read_text(path()),
            R"({"elapsed":{"steps":0,"samples":0,"date":1000.5,"date_start":1000.5,"time":0}})"
            "\n"
            R"({"elapsed":{"steps":1,"samples":10,"date":1001.5,"date_start":1000.5,"time":1},)"
            R"("metrics":{"a":0.5,"say \"hi\"\n":3},"losses":{"a":2}})"
            "\n"
            R"({"elapsed":{"steps":2,"samples":20,"date":1002.5,"date_start":1000.5,"time":2},)"
            R"("losses":{"a":4}})"
            "\n");
}

TEST_F(HistoryFiles, JsonlNumbersKeepTheirBits) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Values values{0.1, -0.0, 1e-310, 1.0 / 3, 1e300, 123456789.123456789, 1e22, 9007199254740993.0, 5};
  History h;
  for (const double value : values) h.commit(elapsed_of(0), logs().add_metric("a", value));
  for (const double value : {infinity, -infinity, std::nan("")}) {
    h.commit(elapsed_of(0), logs().add_metric("a", value));
  }
  h.write_jsonl(path());
  std::ifstream file(path());
  std::vector<nlohmann::json> read;
  for (std::string line; std::getline(file, line);) read.push_back(nlohmann::json::parse(line).at("metrics").at("a"));
  ASSERT_EQ(read.size(), values.size() + 3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = read[i].get<double>();
    EXPECT_EQ(std::memcmp(&value, &values[i], sizeof value), 0) << read[i];
  }
  // There are no such numbers in JSON.
  for (std::size_t i = values.size(); i < read.size(); ++i) EXPECT_TRUE(read[i].is_null()) << read[i];
}

TEST_F(HistoryFiles, NpyFormat1) {
  History h;
  for (int i = 0; i < 3; ++i) h.commit(elapsed_of(i), i == 1 ? logs() : logs().add_metric("a", i + 0.25));
  h.write_npy("a", path());
  const std::string text = test::read_text(path());
  ASSERT_EQ(text.size() % 64, 2 * sizeof(double));
  const std::size_t header = text.size() - 2 * sizeof(double);
  EXPECT_EQ(text.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
  EXPECT_EQ(static_cast<unsigned char>(text[8]) + 256u * static_cast<unsigned char>(text[9]), header - 10);
  EXPECT_EQ(text.substr(10, 58), "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }" + std::string(1, ' '));
  EXPECT_EQ(text[header - 1], '\n');
  Values values(2);
  std::memcpy(values.data(), text.data() + header, 2 * sizeof(double));
  EXPECT_EQ(values, (Values{0.25, 2.25}));
  EXPECT_EQ(values, h.collect("a")[0]);

  expect_error(ErrorCode::not_found, {"'b'"}, [&] { h.write_npy("b", path()); });
  h.write_npy("elapsed.steps", path());
  EXPECT_EQ(test::read_text(path()).size() % 64, 3 * sizeof(double));
}

// Longer than one write.
TEST_F(HistoryFiles, LongFilesAreComplete) {
  History h;
  for (int i = 0; i < 20'000; ++i) h.commit(elapsed_of(i), logs().add_metric("a", i / 3.0));
  h.write_csv(path());
  const Rows rows = read();
  ASSERT_EQ(rows.size(), 20'001u);
  h.write_jsonl(path());
  std::ifstream file(path());
  std::string line;
  for (int i = 0; i < 20'000; ++i) {
    const auto& row = rows[static_cast<std::size_t>(i) + 1];
    EXPECT_EQ(std::stoi(row[0]), i);
    EXPECT_EQ(std::stod(row[3]), i / 3.0);
    ASSERT_TRUE(std::getline(file, line));
    EXPECT_NE(line.find("\"a\":" + row[3] + "}}"), line.npos) << line;
  }
  EXPECT_FALSE(std::getline(file, line));
}

// A history in a checkpoint may be damaged; it is then rejected as corrupt data.
TEST(History, RejectsDamagedRecords) {
  const auto read = [](const std::string& columns, const std::string& layouts, const std::string& line) {
    Archive archive = Archive::read(R"({"columns":[)" + columns + R"(],"layouts":)" + layouts + R"(,"records":1})", {},
                                    nullptr, {{"records", {0, 1, line + "\n"}}});
    History history;
    history.persist(archive);
    return history;
  };
  const std::string loss = R"({"collection":"losses","name":"loss"})";
  const std::string line = "[0,1,32,1.5,1.0,32,0.25]";
  EXPECT_EQ(read(loss, "[[0]]", line).column("loss"), Values{0.25});

  const auto expect_damaged = [&](const std::string& what, const auto&... parts) {
    SCOPED_TRACE(what);
    expect_error(ErrorCode::corrupt_data, {what}, [&] { read(parts...); });
  };
  expect_damaged("in the collection 'elapsed'", R"({"collection":"elapsed","name":"loss"})", "[[0]]", line);
  expect_damaged("refers to column 1 of 1", loss, "[[1]]", line);
  expect_damaged("one of 1 layouts", loss, "[[0]]", "[1,1,32,1.5,1.0,32,0.25]");
  expect_damaged("1 values", loss, "[[0]]", "[0,1,32,1.5,1.0,32]");
  expect_damaged("an integer at index 1", loss, "[[0]]", "[0,1.5,32,1.5,1.0,32,0.25]");
  expect_damaged("a number at index 6", loss, "[[0]]", R"([0,1,32,1.5,1.0,32,"x"])");
  expect_damaged("a list of at least 6", loss, "[[0]]", "{}");
}

}  // namespace
}  // namespace giro
