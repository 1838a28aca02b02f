#include <giro/callbacks/keras_bar.h>

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include <giro/loop/loop.h>

#include "tests/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

// At the beginning of a step, each having taken `step_time` seconds.
Elapsed at_step(std::int64_t steps, double step_time = 1) {
  const double date = 1000 + step_time * static_cast<double>(steps);
  return {.steps = steps, .samples = steps, .date = date, .date_start = 1000};
}

Logs loss_of(double value) { return logs().add_metric("loss", value); }

// A file, to which whole lines are written.
class KerasBarFile : public testing::Test {
 protected:
  ~KerasBarFile() override { std::fclose(file_); }

  KerasBarOptions options(std::int64_t total) const { return {.total = total, .file_interval = 5, .out = file_}; }
  std::vector<std::string> lines() const {
    std::string text(static_cast<std::size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file_), text.size());
    std::fseek(file_, 0, SEEK_END);
    EXPECT_EQ(text.find('\r'), std::string::npos);
    EXPECT_TRUE(text.empty() || text.back() == '\n');
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  std::string only_line() const {
    const std::vector<std::string> all = lines();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? "" : all.back();
  }

  std::FILE* file_ = std::tmpfile();
};

TEST_F(KerasBarFile, DrawsAsKerasDoes) {
  KerasBar bar(options(10'000));
  const Logs logs = giro::logs().add_metric("accuracy", 0.9779).add_metric("loss", 0.0718);
  for (int step = 0; step < 4650; ++step) {
    // All but the last within an interval.
    bar({.steps = step, .samples = 0, .date = step < 4649 ? 1000.0 : 1007.0, .date_start = 1000}, logs);
  }
  EXPECT_EQ(only_line(),
            " 4650/10000 [============>.................] - ETA: 8s - accuracy: 0.9779 - loss: 0.0718");
}

TEST_F(KerasBarFile, WritesALineEachIntervalAndTheLast) {
  KerasBar bar(options(20));
  for (int step = 0; step < 20; ++step) bar(at_step(step), loss_of(step));
  EXPECT_EQ(lines(), (std::vector<std::string>{
                         " 6/20 [========>.....................] - ETA: 14s - loss: 2.5000",
                         "11/20 [===============>..............] - ETA: 9s - loss: 5.0000",
                         "16/20 [=======================>......] - ETA: 4s - loss: 7.5000",
                         "20/20 [==============================] - 20s 1s/step - loss: 9.5000",
                     }));
}

TEST_F(KerasBarFile, MeansAreOverAllStepsAndStatefulOnesAreTheLatest) {
  KerasBar bar(options(4));
  for (int step = 0; step < 4; ++step) {
    Logs logs = giro::logs().add_loss("kl", 10 + step).add_metric("loss", step);
    logs.add_stateful_metric("lr", 0.1 * step).add_entry("other", "x", 1);
    if (step % 2 == 1) logs.add_metric("seldom", step);
    bar(at_step(step, 1e-3), logs);
  }
  EXPECT_EQ(only_line(), "4/4 [==============================] - 0s 1ms/step - kl: 11.5000 - loss: 1.5000 - "
                         "lr: 0.3000 - seldom: 2.0000");
}

TEST_F(KerasBarFile, ALossThatIsAMetricIsShownOnce) {
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
  EXPECT_EQ(only_line(), "1/1 [==============================] - 0s 0s/step - a: 0.0010 - b: 1.0000e-03 - "
                         "c: -1.2346e-07 - d: 0.0000e+00 - e: -12345.6700 - f: nan - g: inf");
}

TEST_F(KerasBarFile, FollowsLogsThatChangeTheirOrder) {
  KerasBar bar(options(3));
  bar(at_step(0), logs().add_metric("a", 1).add_metric("b", 10));
  bar(at_step(1), logs().add_metric("b", 20).add_metric("c", 5).add_metric("a", 2));
  bar(at_step(2), logs().add_metric("c", 6).add_metric("a", 3).add_metric("b", 30));
  const std::string line = only_line();
  EXPECT_EQ(line.substr(line.find(" - a")), " - a: 2.0000 - b: 20.0000 - c: 5.5000");
}

TEST_F(KerasBarFile, TellsTimesInTheirUnits) {
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

TEST_F(KerasBarFile, ALoopThatEndsEarlyLeavesItsLastLine) {
  {
    KerasBar bar(options(10));
    const KerasBar copy = bar;
    for (int step = 0; step < 3; ++step) bar(at_step(step), loss_of(step));
    EXPECT_TRUE(lines().empty());
  }
  EXPECT_EQ(only_line(), " 3/10 [========>.....................] - 3s 1s/step - loss: 1.0000");
}

TEST_F(KerasBarFile, WritesNothingIfItIsNeverCalled) {
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

TEST_F(KerasBarFile, AResumedLoopCountsOnButMeansAndTimesItsOwn) {
  KerasBar bar(options(100));
  for (int step = 96; step < 100; ++step) bar(at_step(step), loss_of(step));
  EXPECT_EQ(only_line(), "100/100 [==============================] - 4s 1s/step - loss: 97.5000");
}

TEST_F(KerasBarFile, ASecondLoopStartsAnew) {
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

TEST_F(KerasBarFile, AClockSetBackDoesNotSilenceIt) {
  KerasBar bar(options(10));
  bar({.steps = 0, .samples = 0, .date = 1000, .date_start = 1000}, loss_of(1));
  bar({.steps = 1, .samples = 0, .date = 500, .date_start = 1000}, loss_of(1));
  bar({.steps = 2, .samples = 0, .date = 506, .date_start = 1000}, loss_of(1));
  EXPECT_EQ(lines().size(), 2u);
}

TEST_F(KerasBarFile, ObservesALoop) {
  const std::vector<int> batches(5);
  const auto step = [](const Elapsed& elapsed, const int&) { return loss_of(static_cast<double>(elapsed.steps)); };
  loop(0, batches, {{every(1), step}, {every(1), keras_bar(options(5))}});
  const std::string line = only_line();
  EXPECT_EQ(line.substr(0, 37), "5/5 [==============================] ");
  EXPECT_EQ(line.substr(line.find("loss")), "loss: 2.0000");
}

TEST(KerasBar, RefusesOptionsThatMakeNoBar) {
  expect_error(ErrorCode::invalid_argument, {"total is -1"}, [] { keras_bar({.total = -1}); });
  expect_error(ErrorCode::invalid_argument, {"width is 0"}, [] { keras_bar({.width = 0}); });
  expect_error(ErrorCode::invalid_argument, {"out is null"}, [] { keras_bar({.out = nullptr}); });
}

// A pseudo-terminal, on which the line is drawn over itself.
class KerasBarTerminal : public testing::Test {
 protected:
  KerasBarTerminal() {
    termios raw{};
    ::cfmakeraw(&raw);
    winsize size{.ws_row = 24, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
    if (::openpty(&master_, &slave_, nullptr, &raw, &size) != 0) return;
    out_ = ::fdopen(slave_, "w");
  }
  ~KerasBarTerminal() override {
    if (out_ == nullptr) return;
    std::fclose(out_);
    ::close(master_);
  }
  void SetUp() override {
    if (out_ == nullptr) GTEST_SKIP() << "this machine gives no pseudo-terminal";
  }

  void resize(unsigned short columns) {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(slave_, TIOCSWINSZ, &size), 0);
  }
  // What has been written since the last call. A terminal delivers when it likes, but in order: up to a mark.
  std::string written() {
    constexpr char kMark = '\x01';
    EXPECT_EQ(::write(slave_, &kMark, 1), 1);
    std::string text;
    char c = 0;
    pollfd waiting{.fd = master_, .events = POLLIN, .revents = 0};
    while (::poll(&waiting, 1, 10'000) == 1 && ::read(master_, &c, 1) == 1) {
      if (c == kMark) return text;
      text += c;
    }
    ADD_FAILURE() << "the terminal is silent after '" << text << "'";
    return text;
  }

  int master_ = -1, slave_ = -1;
  std::FILE* out_ = nullptr;
};

TEST_F(KerasBarTerminal, DrawsOverItselfAtMostEveryInterval) {
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

TEST_F(KerasBarTerminal, ClearsWhatALongerLineHasLeft) {
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

TEST_F(KerasBarTerminal, IsCutToTheWidthButForItsLastLine) {
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

TEST_F(KerasBarTerminal, LeavesTheLineWhenTheLoopEndsEarly) {
  {
    KerasBar bar({.total = 10, .width = 10, .interval = 100, .out = out_});
    for (int step = 0; step < 3; ++step) bar(at_step(step), loss_of(step));
    written();
  }
  EXPECT_EQ(written(), "\r 3/10 [==>.......] - 3s 1s/step - loss: 1.0000\n");
}

}  // namespace
}  // namespace giro
