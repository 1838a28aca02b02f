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
// Writes the mean of each list of numbers (LoopOutputs::mean) as a scalar, and the array of each name
// (LoopOutputs::array) as a histogram, or as images, at the state's step. The writer must outlive the action. Only rank
// 0 writes.
Action summary_action(MetricWriter& writer, const SummaryActionOptions& options = {});

// Saves the state into a directory, as `checkpoint` does in a loop written by hand.
Action checkpoint_action(const std::string& dir, std::int64_t interval = 1, const CheckpointOptions& options = {});

// Appends a line "<seconds since 1970> <step>" to a file.
Action step_number_action(const std::string& path, std::int64_t interval = 1);

struct MetricMonitoringStopHandlerOptions {
  double min_delta = 1e-8;     // a value is better only if it is better by more than this; the sign is ignored
  std::int64_t patience = 10;  // evaluations in a row without a better value; 0 stops at the first one
  // "min", "max", or "auto": max for names that end in acc, accuracy or auc.
  std::string mode = "auto";
  std::optional<double> baseline = {};  // the best value before the first evaluation
};
// Decides when a metric stops improving. Without a baseline the first value is the best so far.
class MetricMonitoringStopHandler {
 public:
  // Error(invalid_argument) for an unknown mode, naming the nearest, or no metric.
  explicit MetricMonitoringStopHandler(const std::string& metric,
                                       const MetricMonitoringStopHandlerOptions& options = {});

  const std::string& metric() const noexcept { return monitor_.entry(); }
  // Whether to stop. Error(invalid_argument) for NaN.
  bool update(double value, std::int64_t step);
  double best() const noexcept { return monitor_.best(); }
  // The step of the best value; -1 while there is none.
  std::int64_t best_step() const noexcept { return best_step_; }

 private:
  Monitor monitor_;
  std::int64_t patience_, patience_left_;
  std::int64_t best_step_ = -1;
};

// Passes the mean of the handler's metric to the handler, and sets stop_loop if it returns true. A loop without that
// metric is skipped, with a warning to `log`.
Action early_stopping_action(const std::shared_ptr<MetricMonitoringStopHandler>& handler, std::int64_t interval = 1,
                             std::function<void(const std::string& line)> log = {});

}  // namespace giro::jaxloop
