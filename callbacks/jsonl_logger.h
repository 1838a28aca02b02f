#pragma once

#include <memory>
#include <string>

#include <giro/callbacks/logger_options.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// An observer that writes the logs of each step it is due at to a file as they arrive, one JSON object a line:
//   {"elapsed":{"steps":0,"samples":0,"date":1e9,"date_start":1e9,"time":0},"metrics":{"loss":0.5}}
// Numbers are written so that reading them gives the same bits; those that are not finite, which JSON does not have,
// are the strings "NaN", "Infinity" and "-Infinity". Arrays in "outputs" are left out. Copies write to the same file.
// Errors: invalid_argument (no name, a negative interval); when a loop begins or it is called: io; corrupt_data if
// what is to be appended to is no such file.
class JsonlLogger {
 public:
  JsonlLogger(const std::string& path, const LoggerOptions& options);
  void on_start(const Elapsed& elapsed);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  // Also for loops written by hand: brings everything to the disk.
  void on_end();

 private:
  class File;
  std::shared_ptr<File> file_;
};
inline JsonlLogger jsonl_logger(const std::string& path, const LoggerOptions& options = {}) { return {path, options}; }

}  // namespace giro
