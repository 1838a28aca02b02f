#pragma once

#include <memory>

#include <giro/runtime/file_system.h>

namespace giro {

// Of csv_logger and jsonl_logger.
struct LoggerOptions {
  // Whenever a loop begins, go on with the file that is there, if there is one, but for the records from the loop's
  // first step on: those steps are run again. Else the file begins anew, once: it holds all loops of the logger.
  bool append = false;
  double flush_interval = 5;  // seconds after which the next line brings all lines to the file, as a loop's end does
  std::shared_ptr<FileSystem> files = posix_file_system();
};

}  // namespace giro
