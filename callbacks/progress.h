#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <giro/loop/log/combined_logs.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro::detail {

// Shared by the progress bars: when to draw, which logs to show, and the output: one line redrawn in place on a
// terminal, whole lines elsewhere.
class Progress {
 public:
  struct Options {
    Period total = {};    // no field set: unknown
    double interval = 0;  // seconds between redraws on a terminal
    double file_interval = 0;
    std::vector<std::string> stateful_metrics = {};  // shown as their latest value
    bool always_stateful = false;
    std::FILE* out = nullptr;
  };
  // Makes a line for a width of `columns`, 0 for no limit; `final` if it is the last line.
  using Format = std::function<std::string(const Progress&, bool final, std::size_t columns)>;
  struct Shown {
    std::string name;
    double value;
  };
  // What the bar shows: the progress in the field of the total that is furthest along.
  struct Goal {
    double done = 0, total = 0;  // done is at most total; total 0: unknown
    bool is_time = false;        // in seconds, rather than a count
    std::optional<double> left;  // seconds, at the speed so far

    std::string text(double amount) const;  // "450", or "12s"
  };

  // From the options of a bar. Error(invalid_argument), naming the bar, unless there is a file, the width is at least
  // `min_width`, and all fields of the total are positive; 0 steps count as unset.
  template <class BarOptions>
  static Options options_of(const char* bar, const BarOptions& given, int min_width) {
    check(bar, given.total, given.width, min_width, given.out);
    return {given.total, given.interval, given.file_interval, given.stateful_metrics, given.always_stateful, given.out};
  }

  // `heading` is a line above the bar, or empty.
  Progress(Options options, std::string heading, Format format);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const Elapsed& elapsed, const Logs& logs);
  // Draws the last line of a loop that ended before its total, at `elapsed` if that is known. The next update begins
  // another loop.
  void end(const Elapsed& elapsed = {});
  // Saves or restores what is shown, for a resumed run.
  void persist(Archive& archive);

  Goal goal() const;
  std::int64_t steps() const noexcept { return done_.steps; }                      // completed
  std::int64_t steps_here() const noexcept { return done_.steps - begin_.steps; }  // completed since the loop began
  double seconds() const noexcept;    // since the loop began, assuming the latest step took as long as the others
  double step_time() const noexcept;  // seconds; 0: unknown
  std::vector<Shown> shown() const;

 private:
  static void check(const char* bar, const Period& total, int width, int min_width, const std::FILE* out);

  void begin(const Elapsed& elapsed);
  void draw(bool final);

  const Options options_;
  const std::string heading_;
  const Format format_;
  const bool terminal_;
  CombinedLogs combined_;  // of the steps since the loop began
  Elapsed begin_;
  Elapsed done_;   // including the latest step
  Elapsed dated_;  // at the latest date, so without the latest step
  double drawn_date_ = 0;
  std::size_t drawn_columns_ = 0;
  bool finished_ = true;
};

}  // namespace giro::detail
