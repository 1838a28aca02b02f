#include <giro/callbacks/tqdm_bar.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <giro/loop/loop.h>

#include "tests/callbacks/bar_output.h"
#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::at_step;
using test::expect_invalid;
using test::loss_of;

class TqdmBarFile : public test::BarFile {
 protected:
  TqdmBarOptions options(std::int64_t total) const { return {.total = total, .file_interval = 5, .out = file_}; }
};

// As tqdm 4.70 draws them: tqdm.format_meter(n, total, elapsed, ascii=True, unit="step", prefix="train",
// postfix="loss=0.123").
TEST_F(TqdmBarFile, DrawsLikeTqdm) {
  TqdmBarOptions with = options(1000);
  with.desc = "train";
  TqdmBar bar(with);
  const double step_time = 12.465 / 450;
  for (int step = 0; step < 450; ++step) {
    // All but the last fall within one interval.
    bar(at_step(step, step < 449 ? 0 : step_time), loss_of(0.1234));
  }
  EXPECT_EQ(only_line(), "train:  45%|####5     | 450/1000 [00:12<00:15, 36.10step/s, loss=0.123]");
}

TEST_F(TqdmBarFile, WritesALineEachIntervalAndAtTheEnd) {
  TqdmBar bar(options(12));
  for (int step = 0; step < 12; ++step) bar(at_step(step), loss_of(step));
  EXPECT_EQ(lines(), (std::vector<std::string>{
                         " 50%|#####     | 6/12 [00:06<00:06,  1.00step/s, loss=2.5]",
                         " 92%|#########1| 11/12 [00:11<00:01,  1.00step/s, loss=5]",
                         "100%|##########| 12/12 [00:12<00:00,  1.00step/s, loss=5.5]",
                     }));
}

TEST_F(TqdmBarFile, TotalMayBeInSamples) {
  TqdmBarOptions with = options(0);
  with.total = at({.samples = 60});
  with.file_interval = 0;
  TqdmBar bar(with);
  for (int step = 0; step < 3; ++step) {
    bar({.steps = step, .samples = 10 * step, .date = 1000.0 + step, .date_start = 1000, .step_samples = 10}, logs());
  }
  EXPECT_EQ(lines().back(), " 50%|#####     | 30/60 [00:03<00:03,  1.00step/s]");
}

TEST_F(TqdmBarFile, FormatsTimesWithUnits) {
  struct Case {
    double step_time;
    std::string last;
  };
  for (const Case& c : {Case{50e-6, "[00:00<00:00, 20000.00step/s]"}, Case{0.5, "[00:50<00:00,  2.00step/s]"},
                        Case{2.5, "[04:10<00:00,  2.50s/step]"}, Case{36, "[1:00:00<00:00, 36.00s/step]"},
                        Case{0, "[00:00<00:00, ?step/s]"}}) {
    std::rewind(file_);
    ASSERT_EQ(::ftruncate(::fileno(file_), 0), 0);
    TqdmBar bar(options(100));
    for (int step = 0; step < 100; ++step) bar(at_step(step, c.step_time), logs());
    EXPECT_EQ(lines().back(), "100%|##########| 100/100 " + c.last);
  }
}

TEST_F(TqdmBarFile, CountsWithoutATotal) {
  TqdmBarOptions with = options(0);
  with.unit = "batch";
  TqdmBar bar(with);
  for (int step = 0; step < 8; ++step) bar(at_step(step, 0.5), loss_of(1));
  bar.on_end();
  EXPECT_EQ(only_line(), "8batch [00:04,  2.00batch/s, loss=1]");
}

TEST_F(TqdmBarFile, RateIsUnknownInTheFirstStep) {
  TqdmBarOptions with = options(4);
  with.file_interval = 0;
  with.width = 8;
  TqdmBar bar(with);
  bar(at_step(0), loss_of(4));
  EXPECT_EQ(only_line(), " 25%|##      | 1/4 [00:00<?, ?step/s, loss=4]");
}

TEST_F(TqdmBarFile, AveragesMetricsAndShowsLatestStatefulOnes) {
  TqdmBarOptions with = options(2);
  with.stateful_metrics = {"b"};
  TqdmBar bar(with);
  bar(at_step(0), logs().add_metric("a", 1).add_metric("b", 1).add_stateful_metric("c", 1));
  bar(at_step(1), logs().add_metric("a", 2).add_metric("b", 2).add_stateful_metric("c", 123456));
  EXPECT_EQ(only_line(), "100%|##########| 2/2 [00:02<00:00,  1.00step/s, a=1.5, b=2, c=1.23e+05]");
}

TEST_F(TqdmBarFile, ObservesALoopThatEndsEarly) {
  const std::vector<int> batches(5);
  const auto step = [](const Elapsed& elapsed) { return loss_of(static_cast<double>(elapsed.steps)); };
  const TqdmBar bar = tqdm_bar(options(10));
  EXPECT_EQ((Callback<int, int>(bar).kind()), CallbackKind::observer);
  (void)loop(0, batches, {{every(1), {step, bar}}});
  const std::string line = only_line();
  EXPECT_EQ(line.substr(0, 24), " 50%|#####     | 5/10 [0");
  EXPECT_TRUE(line.ends_with(", loss=2]")) << line;
}

TEST(TqdmBar, RejectsInvalidOptions) {
  expect_invalid({"tqdm_bar: total is -1"}, [] { tqdm_bar({.total = -1}); });
  expect_invalid({"width is -1"}, [] { tqdm_bar({.width = -1}); });
  expect_invalid({"out is null"}, [] { tqdm_bar({.out = nullptr}); });
}

class TqdmBarTerminal : public test::BarTerminal {};

TEST_F(TqdmBarTerminal, FillsTheLineAndEndsItOnce) {
  TqdmBar bar({.total = 4, .interval = 0, .out = out_});
  resize(50);
  bar(at_step(0), loss_of(1));
  EXPECT_EQ(written(), "\r 25%|###2         | 1/4 [00:00<?, ?step/s, loss=1]");
  bar(at_step(1), loss_of(1));
  EXPECT_EQ(written(), "\r 50%|##5  | 2/4 [00:02<00:02,  1.00step/s, loss=1]");
  bar(at_step(2), loss_of(1));
  written();
  bar(at_step(3), loss_of(1));
  EXPECT_EQ(written(), "\r100%|#####| 4/4 [00:04<00:00,  1.00step/s, loss=1]\n");
}

TEST_F(TqdmBarTerminal, IsCutToANarrowTerminal) {
  TqdmBar bar({.total = 4, .desc = "\xc3\xa9poque", .interval = 0, .out = out_});
  resize(20);
  bar(at_step(0), loss_of(1));
  EXPECT_EQ(written(), "\r\xc3\xa9poque:  25%|2| 1/4 ");
  resize(12);
  bar(at_step(1), loss_of(1));
  EXPECT_EQ(written(), "\r\xc3\xa9poque:  50%");
}

}  // namespace
}  // namespace giro
