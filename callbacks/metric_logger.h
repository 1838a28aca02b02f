#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <giro/callbacks/metric_writer.h>
#include <giro/loop/log/log_schema.h>
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

 protected:
  // The numbers of these logs, until the next call.
  const Record& record_of(const Elapsed& elapsed, const Logs& logs);

 private:
  std::shared_ptr<MetricWriter> writer_;
  // Most steps log the same entries in the same order, so the tags are kept from one to the next.
  Record record_;
  LogSchema schema_;                  // of the record's logs
  std::vector<std::size_t> entries_;  // the positions of its scalars in them
};
inline MetricLogger metric_logger(std::shared_ptr<MetricWriter> writer) { return MetricLogger(std::move(writer)); }

}  // namespace giro
