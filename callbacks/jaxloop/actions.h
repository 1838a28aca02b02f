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

// Saves the state into a directory, as `checkpoint` does in a loop written by hand, and what the outer loop's actions
// remember. It runs after the other actions that are due.
Action checkpoint_action(const std::string& dir, std::int64_t interval = 1, const CheckpointOptions& options = {});

// Appends a line "<seconds since 1970> <step>" to a file.
Action step_number_action(const std::string& path, std::int64_t interval = 1);

struct MetricMonitoringStopHandlerOptions {
  double min_delta = 1e-8;     // a value is better only if it is better by more than this; the sign is ignored
  std::int64_t patience = 10;  // evaluations in a row without a better value; 0 stops at the first one
  // "min", "max", or "auto": as the metric itself says (Var::direction); else max for names that end in acc, accuracy
  // or auc, as in jaxloop, and min for those that end in loss.
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
  // The mean of the metric in a loop's outputs, or none. With several ranks it is rank 0's on each. Takes the mode
  // "auto" from there. Error(invalid_argument), naming the metric, if neither it nor its name says which way it is
  // better.
  std::optional<double> value_in(const LoopOutputs& outputs, const Partitioner* ranks = nullptr);
  // Whether to stop. Error(invalid_argument) for NaN, and as above.
  bool update(double value, std::int64_t step);
  double best() const noexcept { return monitor_.best(); }
  // The step of the best value; -1 while there is none.
  std::int64_t best_step() const noexcept { return best_step_; }
  // Saves or restores the best value, its step and the patience that is left.
  void persist(Archive& archive);

 private:
  Monitor monitor_;
  std::int64_t patience_, patience_left_;
  std::int64_t best_step_ = -1;
};

// Passes the mean of the handler's metric to the handler, and sets stop_loop if it returns true. A loop without that
// metric is skipped, with a warning to `log`. With several ranks rank 0's mean decides. A checkpoint_action saves the
// handler's memory.
Action early_stopping_action(const std::shared_ptr<MetricMonitoringStopHandler>& handler, std::int64_t interval = 1,
                             std::function<void(const std::string& line)> log = {});

}  // namespace giro::jaxloop
