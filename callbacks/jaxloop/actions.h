#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/jaxloop/action.h>
#include <giro/callbacks/metric_writer.h>
#include <giro/callbacks/monitor.h>

namespace giro::jaxloop {

struct SummaryActionOptions {
  std::int64_t interval = 1;
  bool flush_each_call = true;
  std::vector<std::string> images = {};  // the names of arrays that are images (MetricWriter::write_images)
};
// Writes the mean of each list of numbers as a scalar, and the last array of each name as a histogram, or as images, at
// the state's step. The writer outlives it. Rank 0 alone writes.
Action summary_action(MetricWriter& writer, const SummaryActionOptions& options = {});

// Saves the state into a directory, as `checkpoint` does by hand, where a state of the same step is not saved already.
Action checkpoint_action(const std::string& dir, std::int64_t interval = 1, const CheckpointOptions& options = {});

// Appends a line "<seconds since 1970> <step>" to a file.
Action step_number_action(const std::string& path, std::int64_t interval = 1);

struct MetricMonitoringStopHandlerOptions {
  double min_delta = 1e-8;     // only what is better by more than that, whatever its sign, is better
  std::int64_t patience = 10;  // evaluations in a row that are no better; 0 stops at the first, whatever it is
  // "min", "max", or "auto": max for names that end in acc, accuracy or auc.
  std::string mode = "auto";
  std::optional<double> baseline = {};  // the best so far, before the first
};
// Decides when a metric no longer gets better. Without a baseline the first value is the best so far.
class MetricMonitoringStopHandler {
 public:
  // Error(invalid_argument) for another mode, naming the nearest, or no metric.
  explicit MetricMonitoringStopHandler(const std::string& metric,
                                       const MetricMonitoringStopHandlerOptions& options = {});

  const std::string& metric() const noexcept { return monitor_.entry(); }
  // Whether to stop. Error(invalid_argument) for NaN.
  bool update(double value, std::int64_t step);
  double best() const noexcept { return monitor_.best(); }
  // In which it was the best; -1 while none was.
  std::int64_t best_step() const noexcept { return best_step_; }

 private:
  Monitor monitor_;
  std::int64_t patience_, patience_left_;
  std::int64_t best_step_ = -1;
};

// Sets stop_loop where the handler says so of the mean of its metric. A loop without that metric is passed over, with a
// warning to `log`.
Action early_stopping_action(const std::shared_ptr<MetricMonitoringStopHandler>& handler, std::int64_t interval = 1,
                             std::function<void(const std::string& line)> log = {});

}  // namespace giro::jaxloop
