#pragma once

#include <string>

#include <giro/callbacks/metric_logger.h>

namespace giro {

// A MetricLogger that writes CSV like History::write_csv: one line per record, one column per key. An entry that first
// appears later gets a column from then on, which is empty in earlier records: the file is replaced by one with the new
// header, completely or not at all. Appending to a file whose lines end in CR LF changes them to LF.
class CsvLogger : public MetricLogger {
 public:
  using MetricLogger::persist;
  CsvLogger(const std::string& path, const LoggerOptions& options);
};
inline CsvLogger csv_logger(const std::string& path, const LoggerOptions& options = {}) { return {path, options}; }

}  // namespace giro
