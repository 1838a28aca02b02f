#pragma once

#include <memory>
#include <utility>

#include <giro/callbacks/metric_writer.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// An observer that passes the numbers of each step it is due in to a MetricWriter, as scalars "<collection>/<name>"
// such as "metrics/loss", at step elapsed.steps. Arrays are left out (see Outputs). It flushes when the loop ends. It
// does not handle resumed runs; csv_logger, jsonl_logger and tensorboard do. Errors: those of the writer.
class MetricLogger {
 public:
  static constexpr bool kPrimaryOnly = true;

  // Error(invalid_argument) for null.
  explicit MetricLogger(std::shared_ptr<MetricWriter> writer);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  void on_end();

 private:
  std::shared_ptr<MetricWriter> writer_;
};
inline MetricLogger metric_logger(std::shared_ptr<MetricWriter> writer) { return MetricLogger(std::move(writer)); }

}  // namespace giro
