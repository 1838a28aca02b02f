#pragma once

#include <string>

#include <giro/callbacks/file_logger.h>

namespace giro {

// A FileLogger of CSV, as History::write_csv writes a whole history: a line a record, a column a key. An entry that
// appears late has its column from there on: the file is replaced, at once or not at all, by one with the new header,
// and stays empty there for the records before. A file that is appended to may have lines that end in CR LF; they then
// end in LF.
class CsvLogger : public FileLogger {
 public:
  CsvLogger(const std::string& path, const LoggerOptions& options);
};
inline CsvLogger csv_logger(const std::string& path, const LoggerOptions& options = {}) { return {path, options}; }

}  // namespace giro
