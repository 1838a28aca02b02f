#pragma once

#include <string>

#include <giro/callbacks/file_logger.h>

namespace giro {

// A FileLogger of JSON, one object a line:
//   {"elapsed":{"steps":0,"samples":0,"date":1e9,"date_start":1e9,"time":0},"metrics":{"loss":0.5}}
// Numbers are written so that reading them gives the same bits; those that are not finite, which JSON does not have,
// are the strings "NaN", "Infinity" and "-Infinity".
class JsonlLogger : public FileLogger {
 public:
  JsonlLogger(const std::string& path, const LoggerOptions& options);
};
inline JsonlLogger jsonl_logger(const std::string& path, const LoggerOptions& options = {}) { return {path, options}; }

}  // namespace giro
