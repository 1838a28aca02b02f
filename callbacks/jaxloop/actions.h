#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/early_stopping.h>
#include <giro/callbacks/jaxloop/action.h>
#include <giro/callbacks/metric_writer.h>

namespace giro::jaxloop {

struct SummaryActionOptions {
  std::int64_t interval = 1;
  bool flush_each_call = true;
};
// Writes the mean of each list of numbers as a scalar, and the last array of each name as a histogram, at the state's
// step. The writer outlives it. Rank 0 alone writes.
Action summary_action(MetricWriter& writer, const SummaryActionOptions& options = {});

// Saves the state into a directory, as `checkpoint` does by hand, where a state of the same step is not saved already.
Action checkpoint_action(const std::string& dir, std::int64_t interval = 1, const CheckpointOptions& options = {});

// Appends a line "<seconds since 1970> <step>" to a file.
Action step_number_action(const std::string& path, std::int64_t interval = 1);

struct MetricMonitoringStopHandlerOptions {
  double min_delta = 1e-8;     // only what is better by more than that is better
  std::int64_t patience = 10;  // evaluations in a row that are no better
  // "min", "max", or "auto": max for names that end in acc, accuracy or auc.
  std::string mode = "auto";
  std::optional<double> baseline = {};
};
// Decides when a metric no longer gets better. The first value is the best so far.
class MetricMonitoringStopHandler {
 public:
  // Errors: those of early_stopping.
  explicit MetricMonitoringStopHandler(std::string metric, const MetricMonitoringStopHandlerOptions& options = {});

  const std::string& metric() const noexcept { return metric_; }
  // Whether to stop. Error(invalid_argument) for NaN.
  bool update(double value, std::int64_t step);
  double best() const noexcept { return stopping_.best(); }
  // In which it was the best; -1 before the first.
  std::int64_t best_step() const noexcept { return best_step_; }

 private:
  std::string metric_;
  EarlyStopping stopping_;
  std::int64_t best_step_ = -1;
};

// Sets stop_loop where the handler says so of the mean of its metric. A loop without that metric is passed over, with a
// warning to `log`.
Action early_stopping_action(const std::shared_ptr<MetricMonitoringStopHandler>& handler, std::int64_t interval = 1,
                             std::function<void(const std::string& line)> log = {});

}  // namespace giro::jaxloop
