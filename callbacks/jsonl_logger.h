#pragma once

#include <string>

#include <giro/callbacks/metric_logger.h>

namespace giro {

// A MetricLogger that writes JSON, one object per line:
//   {"elapsed":{"steps":0,"samples":0,"date":1e9,"date_start":1e9,"time":0},"metrics":{"loss":0.5}}
// Reading a number back gives the same bits. JSON has no NaN and no infinity: they are null, which readers such as
// pandas, pyarrow and DuckDB take for a missing number. csv_logger tells them apart.
class JsonlLogger : public MetricLogger {
 public:
  using MetricLogger::persist;
  JsonlLogger(const std::string& path, const LoggerOptions& options);
};
inline JsonlLogger jsonl_logger(const std::string& path, const LoggerOptions& options = {}) { return {path, options}; }

}  // namespace giro
