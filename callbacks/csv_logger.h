#pragma once

#include <memory>
#include <string>

#include <giro/callbacks/logger_options.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// An observer that writes the logs of each step it is due at to a CSV file as they arrive, as History::write_csv
// writes a whole history: a line a record, a column a key. An entry that appears late has its column from there on:
// the file is replaced, at once or not at all, by one with the new header, and stays empty there for the records
// before. Arrays in "outputs" are left out. Copies write to the same file. Errors: invalid_argument (no name, a
// negative interval); when a loop begins or it is called: io; corrupt_data if what is to be appended to is no such
// file.
class CsvLogger {
 public:
  CsvLogger(const std::string& path, const LoggerOptions& options);
  void on_start(const Elapsed& elapsed);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  // Also for loops written by hand: brings everything to the disk.
  void on_end();

 private:
  class File;
  std::shared_ptr<File> file_;
};
inline CsvLogger csv_logger(const std::string& path, const LoggerOptions& options = {}) { return {path, options}; }

}  // namespace giro
