#pragma once

#include <memory>
#include <utility>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/file_system.h>

namespace giro {

namespace detail {
class RecordWriter;
}

struct LoggerOptions {
  // Whenever a loop begins, go on with the file that is there, if there is one, but for the records from the loop's
  // first step on: those steps are run again. Else the file begins anew, once: it holds all loops of the logger.
  bool append = false;
  double flush_interval = 5;  // seconds after which the next line brings all lines to the file, as a loop's end does
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// An observer that writes the logs of each step it is due at to a file as they arrive, a record each: what csv_logger
// and jsonl_logger have in common. Arrays are left out (see Outputs). Copies write to the same file, and nobody else
// may: before a loop changes anything, its loggers lock their files, by `.<name>.lock` beside each, until it ends.
// Errors: invalid_argument (no name, a negative interval); when a loop begins or it is called: io; invalid_argument
// where another logger writes to the file, naming its process; corrupt_data if what is to be appended to is no such
// file.
class FileLogger {
 public:
  static constexpr bool kPrimaryOnly = true;

  void on_claim();
  void on_start(const Elapsed& elapsed);
  // A run that is resumed goes on with the file that the run has written, as with LoggerOptions::append.
  void persist(Archive& archive);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  // Also for loops written by hand: brings everything to the disk, and lets others write to the file.
  void on_end();

 protected:
  explicit FileLogger(std::shared_ptr<detail::RecordWriter> records) : records_(std::move(records)) {}

 private:
  std::shared_ptr<detail::RecordWriter> records_;
  std::shared_ptr<void> claim_;  // while it writes
};

}  // namespace giro
