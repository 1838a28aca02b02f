#include <giro/callbacks/keras_bar.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <vector>

#include <giro/loop/loop.h>

#include "tests/callbacks/bar_output.h"
#include "tests/support/counted_metric.h"
#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::at_step;
using test::expect_invalid;
using test::loss_of;

class KerasBarFile : public test::BarFile {
 protected:
  KerasBarOptions options(std::int64_t total) const { return {.total = total, .file_interval = 5, .out = file_}; }
};

TEST_F(KerasBarFile, DrawsLikeKeras) {
  KerasBar bar(options(10'000));
  const Logs logs = giro::logs().add_metric("accuracy", 0.9779).add_metric("loss", 0.0718);
  for (int step = 0; step < 4650; ++step) {
    // All but the last fall within one interval.
    bar({.steps = step, .samples = 0, .date = step < 4649 ? 1000.0 : 1007.0, .date_start = 1000}, logs);
  }
  EXPECT_EQ(only_line(), " 4650/10000 [============>.................] - ETA: 8s - accuracy: 0.9779 - loss: 0.0718");
}

TEST_F(KerasBarFile, WritesALineEachIntervalAndAtTheEnd) {
  KerasBar bar(options(20));
  for (int step = 0; step < 20; ++step) bar(at_step(step), loss_of(step));
  EXPECT_EQ(lines(), (std::vector<std::string>{
                         " 6/20 [========>.....................] - ETA: 14s - loss: 2.5000",
                         "11/20 [===============>..............] - ETA: 9s - loss: 5.0000",
                         "16/20 [=======================>......] - ETA: 4s - loss: 7.5000",
                         "20/20 [==============================] - 20s 1s/step - loss: 9.5000",
                     }));
}

TEST_F(KerasBarFile, AveragesMetricsAndShowsLatestStatefulOnes) {
  KerasBar bar(options(4));
  for (int step = 0; step < 4; ++step) {
    Logs logs = giro::logs().add_loss("kl", 10 + step).add_metric("loss", step);
    logs.add_stateful_metric("lr", 0.1 * step).add_entry("other", "x", 1);
    if (step % 2 == 1) logs.add_metric("seldom", step);
    bar(at_step(step, 1e-3), logs);
  }
  EXPECT_EQ(only_line(),
            "4/4 [==============================] - 0s 1ms/step - kl: 11.5000 - loss: 1.5000 - "
            "lr: 0.3000 - seldom: 2.0000");
}

TEST_F(KerasBarFile, WeightsMetricsByTheirCounts) {
  KerasBar bar(options(4));
  const double values[] = {0.25, 1, NAN, 0.5}, counts[] = {2, 6, 0, 8};
  for (int step = 0; step < 4; ++step) {
    bar(at_step(step, 1e-3), giro::logs()
                                 .add_metric("accuracy", test::counted_metric(values[step], counts[step]))
                                 .add_metric("none", test::counted_metric(NAN, 0))
                                 .add_metric("plain", step)
                                 .add_entry("counts", "metrics/plain", 1 + step));
  }
  EXPECT_EQ(only_line(),
            "4/4 [==============================] - 0s 1ms/step - accuracy: 0.6562 - none: nan - plain: 1.5000");
}

TEST_F(KerasBarFile, TotalMayBeInSamplesOrTime) {
  const auto last_line = [&](const Period& total, int steps) {
    std::rewind(file_);
    EXPECT_EQ(::ftruncate(::fileno(file_), 0), 0);
    KerasBarOptions with = options(0);
    with.total = total;
    with.width = 10;
    with.file_interval = 0;
    KerasBar bar(with);
    for (int step = 0; step < steps; ++step) {
      bar({.steps = step,
           .samples = 32 * step,
           .date = 1000.0 + 2 * step,
           .date_start = 1000,
           .step_samples = 32,
           .tokens_per_sample = 10},
          logs());
    }
    return lines().back();
  };
  // 32 samples take 2 s.
  EXPECT_EQ(last_line(at({.samples = 320}), 3), " 96/320 [==>.......] - ETA: 14s");
  EXPECT_EQ(last_line(at({.samples = 300}), 10), "300/300 [==========] - 20s 2s/step");
  EXPECT_EQ(last_line(at({.samples = 300}), 12), "300/300 [==========] - 20s 2s/step");
  EXPECT_EQ(last_line(at({.tokens = 3'200}), 3), " 960/3200 [==>.......] - ETA: 14s");
  EXPECT_EQ(last_line(at({.time = 20.0}), 6), "10s/20s [====>.....] - ETA: 10s");
  EXPECT_EQ(last_line(at({.time = 20.0}), 20), "20s/20s [==========] - 22s 2s/step");
  EXPECT_EQ(last_line(at({.date = 1020.0}), 6), "10s/20s [====>.....] - ETA: 10s");
  EXPECT_EQ(last_line(at(10), 6), " 6/10 [=====>....] - ETA: 8s");
  // The closest limit counts.
  EXPECT_EQ(last_line(at({.steps = 100, .samples = 320}), 3), " 96/320 [==>.......] - ETA: 14s");
  EXPECT_EQ(last_line(at({.steps = 4, .samples = 320}), 3), "3/4 [======>...] - ETA: 2s");
}

TEST_F(KerasBarFile, LoopEndCompletesABarInSamples) {
  KerasBarOptions with = options(0);
  with.total = at({.samples = 20});
  const KerasBar bar(with);
  const auto size = [](const int&) { return std::int64_t{4}; };
  (void)loop(0, std::vector<int>(5), {{every(2), bar}}, {.batch_size_fn = size});
  EXPECT_EQ(only_line().substr(0, 38), "20/20 [==============================]");
}

TEST_F(KerasBarFile, NanIsShownWithoutSign) {
  KerasBar bar(options(1));
  bar(at_step(0), loss_of(-NAN));
  EXPECT_TRUE(only_line().ends_with("- loss: nan"));
}

TEST_F(KerasBarFile, EntryNameWithLineBreakStaysOnOneLine) {
  KerasBar bar(options(1));
  bar(at_step(0), logs().add_metric("two\nlines\r\x1b[2J", 1));
  EXPECT_EQ(only_line(), "1/1 [==============================] - 0s 0s/step - two lines  [2J: 1.0000");
}

TEST_F(KerasBarFile, LossThatIsAlsoAMetricIsShownOnce) {
  KerasBar bar(options(1));
  bar(at_step(0), logs().add_loss("loss", 2, true));
  EXPECT_EQ(only_line(), "1/1 [==============================] - 0s 0s/step - loss: 2.0000");
}

TEST_F(KerasBarFile, ShowsSmallNumbersInScientificNotation) {
  KerasBar bar(options(1));
  bar(at_step(0), logs()
                      .add_metric("a", 0.0010001)
                      .add_metric("b", 0.001)
                      .add_metric("c", -1.23456e-7)
                      .add_metric("d", 0)
                      .add_metric("e", -12345.67)
                      .add_metric("f", NAN)
                      .add_metric("g", INFINITY));
  EXPECT_EQ(only_line(),
            "1/1 [==============================] - 0s 0s/step - a: 0.0010 - b: 1.0000e-03 - "
            "c: -1.2346e-07 - d: 0.0000e+00 - e: -12345.6700 - f: nan - g: inf");
}

TEST_F(KerasBarFile, AcceptsLogsInChangingOrder) {
  KerasBar bar(options(3));
  bar(at_step(0), logs().add_metric("a", 1).add_metric("b", 10));
  bar(at_step(1), logs().add_metric("b", 20).add_metric("c", 5).add_metric("a", 2));
  bar(at_step(2), logs().add_metric("c", 6).add_metric("a", 3).add_metric("b", 30));
  const std::string line = only_line();
  EXPECT_EQ(line.substr(line.find(" - a")), " - a: 2.0000 - b: 20.0000 - c: 5.5000");
}

TEST_F(KerasBarFile, FormatsTimesWithUnits) {
  struct Case {
    double step_time;
    std::string first, last;
  };
  for (const Case& c : {Case{50e-6, "", "0s 50us/step"}, Case{0.25, "", "25s 250ms/step"},
                        Case{10, "ETA: 16:20", "1000s 10s/step"}, Case{100, "ETA: 2:43:20", "10000s 100s/step"}}) {
    std::rewind(file_);
    ASSERT_EQ(::ftruncate(::fileno(file_), 0), 0);
    KerasBar bar(options(100));
    for (int step = 0; step < 100; ++step) bar(at_step(step, c.step_time), loss_of(1));
    const std::vector<std::string> all = lines();
    EXPECT_NE(all.back().find("] - " + c.last + " - loss"), std::string::npos) << all.back();
    if (c.first.empty()) continue;
    EXPECT_NE(all.front().find(" - " + c.first + " - "), std::string::npos) << all.front();
  }
}

TEST_F(KerasBarFile, CountsWithoutATotal) {
  {
    KerasBar bar(options(0));
    for (int step = 0; step < 8; ++step) bar(at_step(step), loss_of(1));
  }
  EXPECT_EQ(lines(), (std::vector<std::string>{"      6/Unknown - 6s 1s/step - loss: 1.0000",
                                               "      8/Unknown - 8s 1s/step - loss: 1.0000"}));
}

TEST_F(KerasBarFile, EarlyEndLeavesTheLastLine) {
  {
    KerasBar bar(options(10));
    const KerasBar copy = bar;
    for (int step = 0; step < 3; ++step) bar(at_step(step), loss_of(step));
    EXPECT_TRUE(lines().empty());
  }
  EXPECT_EQ(only_line(), " 3/10 [========>.....................] - 3s 1s/step - loss: 1.0000");
}

TEST_F(KerasBarFile, WritesNothingIfNeverCalled) {
  { KerasBar bar(options(10)); }
  EXPECT_TRUE(lines().empty());
}

TEST_F(KerasBarFile, StopsAtTheTotal) {
  {
    KerasBar bar(options(2));
    for (int step = 0; step < 50; ++step) bar(at_step(step), loss_of(step));
  }
  EXPECT_EQ(only_line(), "2/2 [==============================] - 2s 1s/step - loss: 0.5000");
}

TEST_F(KerasBarFile, ResumedLoopContinuesCountsButRestartsMeansAndTimes) {
  KerasBar bar(options(100));
  for (int step = 96; step < 100; ++step) bar(at_step(step), loss_of(step));
  EXPECT_EQ(only_line(), "100/100 [==============================] - 4s 1s/step - loss: 97.5000");
}

TEST_F(KerasBarFile, SecondLoopStartsOver) {
  KerasBar bar(options(2));
  for (int step = 0; step < 2; ++step) bar(at_step(step), loss_of(1));
  bar(at_step(0), loss_of(3));
  bar(at_step(0), loss_of(5));
  bar(at_step(1), loss_of(7));
  const std::vector<std::string> all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1], "1/2 [==============>...............] - 0s 0s/step - loss: 3.0000");
  EXPECT_EQ(all[2], "2/2 [==============================] - 2s 1s/step - loss: 6.0000");
}

TEST_F(KerasBarFile, KeepsDrawingAfterClockIsSetBack) {
  KerasBar bar(options(10));
  bar({.steps = 0, .samples = 0, .date = 1000, .date_start = 1000}, loss_of(1));
  bar({.steps = 1, .samples = 0, .date = 500, .date_start = 1000}, loss_of(1));
  bar({.steps = 2, .samples = 0, .date = 506, .date_start = 1000}, loss_of(1));
  EXPECT_EQ(lines().size(), 2u);
}

TEST_F(KerasBarFile, ObservesALoop) {
  const std::vector<int> batches(5);
  const auto step = [](const Elapsed& elapsed, const int&) { return loss_of(static_cast<double>(elapsed.steps)); };
  (void)loop(0, batches, {{every(1), step}, {every(1), keras_bar(options(5))}});
  const std::string line = only_line();
  EXPECT_EQ(line.substr(0, 37), "5/5 [==============================] ");
  EXPECT_EQ(line.substr(line.find("loss")), "loss: 2.0000");
}

// While the bar object still exists.
TEST_F(KerasBarFile, LeavesItsLastLineWhenTheLoopEnds) {
  const std::vector<int> batches(3);
  const auto step = [](const Elapsed&) { return loss_of(2); };
  const KerasBar bar = keras_bar(options(10));
  (void)loop(0, batches, {{every(1), {step, bar}}});
  EXPECT_EQ(only_line().substr(0, 38), " 3/10 [========>.....................]");
  (void)loop(0, batches, {{every(1), {step, bar}}}, {.elapsed = {.steps = 3}});
  const std::vector<std::string> all = lines();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].substr(0, 38), " 6/10 [=================>............]");
  // Steps at which the bar was not called also count.
  (void)loop(0, std::vector<int>(10), {{every(5), {step, bar}}});
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_EQ(lines()[2].substr(0, 38), "10/10 [==============================]");
  // A run past the total shows nothing.
  (void)loop(0, batches, {{every(1), {step, bar}}}, {.elapsed = {.steps = 10}});
  EXPECT_EQ(lines().size(), 3u);
}

TEST_F(KerasBarFile, NamesTheEpoch) {
  KerasBarOptions with = options(2);
  with.num_epochs = 3;
  with.unit_name = "batch";
  for (const int epoch : {0, 1}) {
    with.epoch = epoch;
    KerasBar bar(with);
    for (int step = 0; step < 2; ++step) bar(at_step(step), loss_of(1));
  }
  with.num_epochs.reset();
  with.epoch = 7;
  { KerasBar never_called(with); }
  KerasBar bar(with);
  bar(at_step(0), loss_of(1));
  const std::string line = "2/2 [==============================] - 2s 1s/batch - loss: 1.0000";
  EXPECT_EQ(lines(), (std::vector<std::string>{"Epoch 1/3", line, "Epoch 2/3", line, "Epoch 8"}));
}

TEST_F(KerasBarFile, StatefulOnRequest) {
  const auto line = [&](KerasBarOptions with) {
    std::rewind(file_);
    EXPECT_EQ(::ftruncate(::fileno(file_), 0), 0);
    KerasBar bar(with);
    for (const double value : {1, 2}) bar(at_step(value > 1), logs().add_metric("a", value).add_loss("b", 10 * value));
    const std::string text = only_line();
    return text.substr(text.find(" - a"));
  };
  KerasBarOptions with = options(2);
  EXPECT_EQ(line(with), " - a: 1.5000 - b: 15.0000");
  with.stateful_metrics = {"b"};
  EXPECT_EQ(line(with), " - a: 1.5000 - b: 20.0000");
  with.always_stateful = true;
  EXPECT_EQ(line(with), " - a: 2.0000 - b: 20.0000");
}

TEST_F(KerasBarFile, MeanIsRightFromTheFirstValue) {
  KerasBarOptions with = options(10);
  with.file_interval = 0;
  KerasBar bar(with);
  bar(at_step(0), loss_of(4));
  bar(at_step(1), loss_of(8));
  const std::vector<std::string> all = lines();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[0].ends_with(" - loss: 4.0000")) << all[0];
  EXPECT_TRUE(all[1].ends_with(" - loss: 6.0000")) << all[1];
}

TEST(KerasBar, RejectsInvalidOptions) {
  expect_invalid({"total is -1"}, [] { keras_bar({.total = -1}); });
  expect_invalid({"total is {.samples = 0}"}, [] { keras_bar({.total = at({.samples = 0})}); });
  expect_invalid({"width is 0"}, [] { keras_bar({.width = 0}); });
  expect_invalid({"out is null"}, [] { keras_bar({.out = nullptr}); });
}

class KerasBarTerminal : public test::BarTerminal {};

TEST_F(KerasBarTerminal, RedrawsAtMostOncePerInterval) {
  KerasBar bar({.total = 10, .width = 10, .interval = 2, .out = out_});
  bar(at_step(0), loss_of(1));
  EXPECT_EQ(written(), "\r 1/10 [>.........] - loss: 1.0000");
  bar(at_step(1), loss_of(1));
  EXPECT_EQ(written(), "");
  bar(at_step(2), loss_of(1));
  EXPECT_EQ(written(), "\r 3/10 [==>.......] - ETA: 7s - loss: 1.0000");
  for (int step = 3; step < 9; ++step) bar(at_step(step), loss_of(1));
  written();
  bar(at_step(9), loss_of(1));
  EXPECT_EQ(written(), "\r10/10 [==========] - 10s 1s/step - loss: 1.0000\n");
}

TEST_F(KerasBarTerminal, ClearsTheRestOfALongerLine) {
  KerasBar bar({.total = 10, .width = 10, .interval = 0, .out = out_});
  bar(at_step(0), loss_of(12345));
  EXPECT_EQ(written(), "\r 1/10 [>.........] - loss: 12345.0000");
  bar(at_step(1, 1e-3), loss_of(-12345));
  EXPECT_EQ(written(), "\r 2/10 [=>........] - ETA: 0s - loss: 0.0000e+00");
  bar(at_step(2, 1e-3), loss_of(3));
  EXPECT_EQ(written(), "\r 3/10 [==>.......] - ETA: 0s - loss: 1.0000    ");
  bar(at_step(3, 1e-3), loss_of(1));
  EXPECT_EQ(written(), "\r 4/10 [===>......] - ETA: 0s - loss: 1.0000");
}

TEST_F(KerasBarTerminal, IsCutToTheWidthExceptForTheLastLine) {
  KerasBar bar({.total = 3, .width = 10, .interval = 0, .out = out_});
  resize(20);
  bar(at_step(0), logs().add_metric("\xc3\xa9\xc3\xa9\xc3\xa9", 1));
  EXPECT_EQ(written(), "\r1/3 [==>.......] - \xc3\xa9");
  resize(0);  // unknown
  bar(at_step(1), logs().add_metric(std::string(100, 'x'), 1));
  EXPECT_EQ(written().size(), 1u + 80 + 3);
  resize(20);
  bar(at_step(2), logs());
  const std::string last = written();
  EXPECT_GT(last.size(), 120u);
  EXPECT_EQ(last.back(), '\n');
}

// A kanji takes two columns, a combining accent none.
TEST_F(KerasBarTerminal, CountsColumns) {
  KerasBar bar({.total = 9, .width = 10, .interval = 0, .out = out_});
  const std::string kanji = "\xe6\x90\x8d", e_acute = "e\xcc\x81";
  resize(22);
  bar(at_step(0), logs().add_metric(kanji + kanji, 1));
  EXPECT_EQ(written(), "\r1/9 [>.........] - " + kanji);  // 19 and 2 columns; the next one has no room
  KerasBar other({.total = 9, .width = 10, .interval = 0, .out = out_});
  other(at_step(0), logs().add_metric(e_acute + e_acute + e_acute + e_acute, 1));
  EXPECT_EQ(written(), "\r1/9 [>.........] - " + e_acute + e_acute + e_acute);
  resize(200);
  KerasBar third({.total = 9, .width = 10, .interval = 0, .out = out_});
  third(at_step(0), logs().add_metric(kanji + e_acute, 100));
  written();
  third(at_step(1, 0), logs());
  EXPECT_EQ(written(), "\r2/9 [=>........] - ETA: 0s - " + kanji + e_acute + ": 100.0000");
}

TEST_F(KerasBarTerminal, ClearsTheColumnsOfALongerLine) {
  KerasBar bar({.total = 9, .width = 10, .interval = 0, .always_stateful = true, .out = out_});
  const std::string kanji = "\xe6\x90\x8d";
  bar(at_step(0), logs().add_metric(kanji, 1));
  bar(at_step(1), logs().add_metric(kanji, 123456));
  written();
  bar(at_step(2), logs().add_metric(kanji, 1));
  EXPECT_EQ(written(), "\r3/9 [==>.......] - ETA: 6s - " + kanji + ": 1.0000     ");
}

TEST_F(KerasBarTerminal, KeepsTheLineWhenTheLoopEndsEarly) {
  {
    KerasBar bar({.total = 10, .width = 10, .interval = 100, .out = out_});
    for (int step = 0; step < 3; ++step) bar(at_step(step), loss_of(step));
    written();
  }
  EXPECT_EQ(written(), "\r 3/10 [==>.......] - 3s 1s/step - loss: 1.0000\n");
}

}  // namespace
}  // namespace giro
