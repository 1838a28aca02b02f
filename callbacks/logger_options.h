#pragma once

#include <memory>

#include <giro/runtime/file_system.h>

namespace giro {

// Of csv_logger and jsonl_logger.
struct LoggerOptions {
  // Go on with the file that is there, if there is one, but for the records from the first step of this run on: those
  // steps are run again. Else the file begins anew.
  bool append = false;
  double flush_interval = 5;  // seconds after which what was logged is in the file
  std::shared_ptr<FileSystem> files = posix_file_system();
};

}  // namespace giro
