#include <giro/loop/history.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
using Values = std::vector<double>;
using Rows = std::vector<std::vector<std::string>>;

Elapsed elapsed_of(std::int64_t steps) {
  return {steps, 10 * steps, 1'000.5 + static_cast<double>(steps), 1'000.5};
}

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

TEST(History, TheOrderOfEntriesMayChange) {
  History h;
  h.commit(elapsed_of(0), logs().add_metric("a", 1).add_metric("b", 2));
  h.commit(elapsed_of(1), logs().add_metric("b", 4).add_metric("c", 5).add_metric("a", 3));
  const auto [a, b] = h.collect("a", "b");
  EXPECT_EQ(a, (Values{1, 3}));
  EXPECT_EQ(b, (Values{2, 4}));
  EXPECT_EQ(h.collect("c")[0], Values{5});
}

TEST(History, ANameInTwoCollectionsIsAmbiguous) {
  History h;
  h.commit(elapsed_of(0), logs().add_loss("loss", 1, /*add_metric=*/true).add_metric("steps", 7));
  expect_error(ErrorCode::invalid_argument, {"'loss'", "'losses.loss'", "'metrics.loss'"}, [&] { h.collect("loss"); });
  expect_error(ErrorCode::invalid_argument, {"'elapsed.steps'", "'metrics.steps'"}, [&] { h.collect("steps"); });
  EXPECT_EQ(h.collect("metrics.loss")[0], Values{1});
  EXPECT_EQ(h.collect("metrics.steps", "elapsed.steps"), (std::array{Values{7}, Values{0}}));
}

TEST(History, AnUnknownKeyNamesTheNearest) {
  History h;
  expect_error(ErrorCode::not_found, {"'loss'"}, [&] { h.collect("loss"); });
  h.commit(elapsed_of(0), logs().add_metric("loss", 1).add_metric("accuracy", 1));
  expect_error(ErrorCode::not_found, {"'los'", "'loss'"}, [&] { h.collect("los"); });
  expect_error(ErrorCode::not_found, {"'sampels'", "'samples'"}, [&] { h.collect("sampels"); });
  expect_error(ErrorCode::not_found, {"'metric.loss'", "'metrics.loss'"}, [&] { h.collect("loss", "metric.loss"); });
  expect_error(ErrorCode::not_found, {"'elapsed.step'", "'elapsed.steps'"}, [&] { h.collect("elapsed.step"); });
}

class HistoryCsv : public ::testing::Test {
 protected:
  HistoryCsv() {
    std::string pattern = (std::filesystem::temp_directory_path() / "history_XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~HistoryCsv() override { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ + "/history.csv"; }
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

  std::string directory_;
};

TEST_F(HistoryCsv, OneLineARecord) {
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

TEST_F(HistoryCsv, ClashingNamesAreWrittenInFull) {
  History h;
  h.commit(elapsed_of(0), logs().add_loss("loss", 1, true).add_metric("steps", 2).add_metric("a", 3));
  h.write_csv(path());
  EXPECT_EQ(read().front(),
            (std::vector<std::string>{"steps", "samples", "time", "metrics.loss", "losses.loss", "metrics.steps",
                                      "a"}));
}

TEST_F(HistoryCsv, NumbersKeepTheirBits) {
  Values values{0.1, static_cast<double>(0.1f), -0.0, 1e-310, 1.0 / 3, 1e300, 123456789.123456789,
                std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (int i = 0; i < 100; ++i) values.push_back(std::sin(i) * std::pow(10, i % 40 - 20));
  History h;
  for (std::size_t i = 0; i < values.size(); ++i) {
    h.commit(elapsed_of(static_cast<std::int64_t>(i)), logs().add_metric("a", values[i]));
  }
  h.commit(elapsed_of(0), logs().add_metric("a", std::numeric_limits<double>::quiet_NaN()));
  h.write_csv(path());
  const Rows rows = read();
  ASSERT_EQ(rows.size(), values.size() + 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = std::strtod(rows[i + 1][3].c_str(), nullptr);
    EXPECT_EQ(std::memcmp(&value, &values[i], sizeof value), 0) << rows[i + 1][3];
  }
  EXPECT_TRUE(std::isnan(std::strtod(rows.back()[3].c_str(), nullptr)));
}

TEST_F(HistoryCsv, ReplacesTheFile) {
  std::ofstream(path()) << "old\n";
  History().write_csv(path());
  EXPECT_EQ(read(), (Rows{{"steps", "samples", "time"}}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
  expect_error(ErrorCode::not_found, {"no/such"}, [&] { History().write_csv(directory_ + "/no/such/history.csv"); });
}

}  // namespace
}  // namespace giro
