#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro::test {

// The Elapsed at the start of a step, if each step takes `step_time` seconds.
inline Elapsed at_step(std::int64_t steps, double step_time = 1) {
  const double date = 1000 + step_time * static_cast<double>(steps);
  return {.steps = steps, .samples = steps, .date = date, .date_start = 1000};
}

inline Logs loss_of(double value) { return logs().add_metric("loss", value); }

// A file; the bar writes whole lines to it.
class BarFile : public testing::Test {
 protected:
  ~BarFile() override { std::fclose(file_); }

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

// A pseudo-terminal; the bar redraws its line in place.
class BarTerminal : public testing::Test {
 protected:
  BarTerminal() {
    termios raw{};
    ::cfmakeraw(&raw);
    winsize size{.ws_row = 24, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
    if (::openpty(&master_, &slave_, nullptr, &raw, &size) != 0) return;
    out_ = ::fdopen(slave_, "w");
  }
  ~BarTerminal() override {
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
  // Returns what was written since the last call. A terminal delivers with a delay but in order, so this reads up to a
  // mark.
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

}  // namespace giro::test
