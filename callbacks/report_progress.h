#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/callbacks/metric_writer.h>
#include <giro/callbacks/periodic_action.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/stream.h>

namespace giro {

struct ReportProgressOptions {
  std::int64_t num_train_steps = 0;           // at which it reports, too; 0 or less: unknown
  std::FILE* out = stdout;                    // takes the text, a line each time; null: nowhere. Outlives what uses it
  std::shared_ptr<MetricWriter> writer = {};  // takes steps_per_sec, and uptime in seconds; null: nobody does
  // As in ActionInterval.
  std::optional<std::int64_t> every_steps = {};
  std::optional<double> every_secs = 60;
  std::vector<std::int64_t> on_steps = {};
  std::function<double()> clock = Elapsed::now;  // seconds; for parts and uptime
};

// Tells how fast training goes and how long it will take, as CLU's ReportProgress does:
//   8.3 steps/s, 40.0% (4/10), ETA: 0m (0m : 50.0% test1, 25.0% test2)
// which is the speed since the last report, and how much of the time since this was made went to which part. A part is
// what runs while a Timed lives:
//
//   auto progress = giro::report_progress({.num_train_steps = 1'000});
//   { const auto timed = progress.timed("eval"); evaluate(); }
//
// By hand (update), or as an observer in a loop, where it is a task of every(1). Copies share what they remember.
// Output to `out` that fails is lost.
class ReportProgress {
 public:
  static constexpr bool kPrimaryOnly = true;

  class Timed;

  // Errors: invalid_argument as of PeriodicAction.
  explicit ReportProgress(const ReportProgressOptions& options);

  // After `step` steps, at time `t` in seconds; by default the clock's. Whether it has reported, which it never does at
  // its first call. Errors: those of PeriodicAction and of the writer.
  bool update(std::int64_t step, std::optional<double> t = {});
  // The text of the latest report.
  const std::string& text() const noexcept;

  // Counts the time until the Timed goes for a part of that name. Of what runs on a stream's device it counts what was
  // queued in between: it waits for the device at both ends.
  [[nodiscard]] Timed timed(std::string name);
  [[nodiscard]] Timed timed(std::string name, const Stream& stream);

  void on_start(const Elapsed& elapsed);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  void persist(Archive& archive);

 private:
  struct Memory;
  std::shared_ptr<Memory> memory_;
};

class ReportProgress::Timed {
 public:
  // An error of the device is left for the next call that waits for it.
  ~Timed();
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  friend class ReportProgress;
  Timed(std::shared_ptr<Memory> memory, std::string name, std::optional<Stream> stream);

  std::shared_ptr<Memory> memory_;
  std::string name_;
  std::optional<Stream> stream_;
  double start_;
};

inline ReportProgress report_progress(const ReportProgressOptions& options = {}) { return ReportProgress(options); }

}  // namespace giro
