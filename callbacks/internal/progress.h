#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro::detail {

// What progress bars have in common: when to draw, what of the logs to show, and one line that is drawn over itself
// on a terminal, or whole lines anywhere else.
class Progress {
 public:
  struct Options {
    std::int64_t total = 0;  // steps; 0: unknown
    double interval = 0;     // seconds between two drawings on a terminal
    double file_interval = 0;
    std::vector<std::string> stateful_metrics;  // shown as their latest value
    bool always_stateful = false;
    std::FILE* out = nullptr;
  };
  // A line of at most `columns` characters, if that is possible, or 0 where there is no such limit; `final` if it is
  // the last.
  using Format = std::function<std::string(const Progress&, bool final, std::size_t columns)>;
  struct Shown {
    std::string name;
    double value;
  };

  // `heading` is a line in front of the bar, unless it is empty.
  Progress(Options options, std::string heading, Format format);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const Elapsed& elapsed, const Logs& logs);
  // Leaves the last line of a loop that ended before its total, after so many steps if that is known; what follows is
  // another loop.
  void end(std::int64_t steps = 0);

  std::int64_t total() const noexcept { return options_.total; }
  std::int64_t steps() const noexcept { return steps_; }                      // completed
  std::int64_t steps_here() const noexcept { return steps_ - begin_steps_; }  // of those, since the loop began
  double seconds() const noexcept;    // since the loop began, as if the latest step had taken as long as the others
  double step_time() const noexcept;  // seconds; 0: unknown
  std::vector<Shown> shown() const;

 private:
  enum class Kind { mean, latest, hidden };
  struct Metric {
    std::string collection, name;
    Kind kind = Kind::hidden;
    double sum = 0;
    std::int64_t count = 0;
  };

  void begin(const Elapsed& elapsed);
  Metric& metric_of(const Logs::Entry& entry, std::size_t hint);
  void draw(bool final);

  const Options options_;
  const std::string heading_;
  const Format format_;
  const bool terminal_;
  std::vector<Metric> metrics_;
  std::int64_t begin_steps_ = 0;
  double begin_date_ = 0;
  std::int64_t steps_ = 0;        // completed
  double date_ = 0;               // the latest there is, and
  std::int64_t dated_steps_ = 0;  // the steps that were completed then
  double drawn_date_ = 0;
  std::size_t drawn_characters_ = 0;
  bool finished_ = true;
};

}  // namespace giro::detail
