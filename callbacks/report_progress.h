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
#include <giro/runtime/handle.h>
#include <giro/runtime/not_copied.h>
#include <giro/runtime/stream.h>

namespace giro {

struct ReportProgressOptions {
  std::int64_t num_train_steps = 0;           // the total, at which it also reports; 0 or less: unknown
  std::FILE* out = stdout;                    // gets a line per report; null: none. Must outlive this
  std::shared_ptr<MetricWriter> writer = {};  // gets steps_per_sec, and uptime in seconds; null: none
  // As in ActionInterval.
  std::optional<std::int64_t> every_steps = {};
  std::optional<double> every_secs = 60;
  std::vector<std::int64_t> on_steps = {};
  std::function<double()> clock = Elapsed::now;  // seconds; for parts and uptime
};

// Reports how fast training goes and how long it will take, like CLU's ReportProgress:
//   8.3 steps/s, 40.0% (4/10), ETA: 0m (0m : 50.0% test1, 25.0% test2)
// The speed is since the last report. The last percentages are each part's share of the time since this was created. A
// part is the code that runs while a Timed lives:
//
//   auto progress = giro::report_progress({.num_train_steps = 1'000});
//   { const auto timed = progress.timed("eval"); evaluate(); }
//
// Use it by hand (update), or as an observer in a loop, as a task of every(1). Copies share their memory. Output errors
// on `out` are ignored.
class ReportProgress {
 public:
  static constexpr bool kPrimaryOnly = true;

  class Timed;

  // Errors: invalid_argument, as PeriodicAction.
  explicit ReportProgress(const ReportProgressOptions& options);

  // Call it after `step` steps, at time `t` in seconds (default: the clock's). Returns whether it has reported; the
  // first call never does. Errors: those of PeriodicAction and of the writer.
  bool update(std::int64_t step, std::optional<double> t = {});
  // The text of the latest report.
  const std::string& text() const noexcept;

  // Adds the time until the Timed is destroyed to the part `name`. With a stream it waits for the device at both ends,
  // so as to measure the work queued in between.
  [[nodiscard]] Timed timed(std::string name);
  [[nodiscard]] Timed timed(std::string name, const Stream& stream);

  void on_start(const Elapsed& elapsed);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  void persist(Archive& archive);

 private:
  struct Memory;
  detail::Handle<Memory> memory_;
};

class ReportProgress::Timed : detail::NotCopied {
 public:
  // Ignores errors of the device; the next call that waits for it throws them.
  ~Timed();

 private:
  friend class ReportProgress;
  Timed(std::shared_ptr<Memory> memory, std::string name, std::optional<Stream> stream);

  detail::Handle<Memory> memory_;
  std::string name_;
  std::optional<Stream> stream_;
  double start_;
};

inline ReportProgress report_progress(const ReportProgressOptions& options = {}) { return ReportProgress(options); }

}  // namespace giro
