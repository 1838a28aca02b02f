#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
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
    Period total = {};    // none of its fields: unknown
    double interval = 0;  // seconds between two drawings on a terminal
    double file_interval = 0;
    std::vector<std::string> stateful_metrics = {};  // shown as their latest value
    bool always_stateful = false;
    std::FILE* out = nullptr;
  };
  // A line for so many columns, or 0 where there is no such limit; `final` if it is the last.
  using Format = std::function<std::string(const Progress&, bool final, std::size_t columns)>;
  struct Shown {
    std::string name;
    double value;
  };
  // What the bar is a picture of: how far the field of the total is that is furthest on.
  struct Goal {
    double done = 0, total = 0;  // at most that; no total: unknown
    bool is_time = false;        // in seconds, rather than a count
    std::optional<double> left;  // seconds, as fast as it went so far

    std::string text(double amount) const;  // "450", or "12s"
  };

  // Whether all that a total has is positive; 0 steps are as none.
  static bool can_show(const Period& total) noexcept {
    return total.steps.value_or(0) >= 0 && total.samples.value_or(1) > 0 && total.time.value_or(1) > 0 &&
           total.date.value_or(1) > 0;
  }

  // `heading` is a line in front of the bar, unless it is empty.
  Progress(Options options, std::string heading, Format format);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const Elapsed& elapsed, const Logs& logs);
  // Leaves the last line of a loop that ended before its total, where it did if that is known; what follows is another
  // loop.
  void end(const Elapsed& elapsed = {});
  // What has been shown, for a run that is resumed.
  void persist(Archive& archive);

  Goal goal() const;
  std::int64_t steps() const noexcept { return done_.steps; }                      // completed
  std::int64_t steps_here() const noexcept { return done_.steps - begin_.steps; }  // of those, since the loop began
  double seconds() const noexcept;    // since the loop began, as if the latest step had taken as long as the others
  double step_time() const noexcept;  // seconds; 0: unknown
  std::vector<Shown> shown() const;

 private:
  enum class Kind { mean, latest, hidden };
  struct Metric {
    std::string collection, name;
    Kind kind = Kind::hidden;
    double sum = 0;
    double count = 0;  // that sum is of: steps, or elements where the logs count them

    void persist(Archive& archive);
  };

  void begin(const Elapsed& elapsed);
  Metric& metric_of(const Logs::Entry& entry, std::size_t hint);
  void draw(bool final);

  const Options options_;
  const std::string heading_;
  const Format format_;
  const bool terminal_;
  std::vector<Metric> metrics_;
  Elapsed begin_;
  Elapsed done_;   // with the latest step
  Elapsed dated_;  // what was completed at the latest date there is
  double drawn_date_ = 0;
  std::size_t drawn_columns_ = 0;
  bool finished_ = true;
};

}  // namespace giro::detail
