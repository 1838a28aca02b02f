#pragma once

#include <memory>

#include <giro/callbacks/metric_logger.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/files/file_system.h>

namespace giro {

namespace detail {
class RunWriter;
}

struct LoggerOptions {
  // Whether each loop continues an existing file. Records from the loop's first step on are dropped, because those
  // steps run again. If false, the first loop replaces the file, and it holds all loops of this logger.
  bool append = false;
  double flush_interval = 5;  // seconds; the first line after this flushes all lines, as the end of a loop does
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// A MetricLogger of files that belong to a run. Base of csv_logger and jsonl_logger, which write the logs of each step
// they are due in to a file as they arrive, one record per step, and of tensorboard. Copies write to the same file, and
// nothing else may: before a loop changes anything, its loggers lock their files until it ends, with a file
// `.<name>.lock` next to each. Errors: invalid_argument (no name, a negative interval); when a loop begins or it is
// called: io; invalid_argument if another logger writes to the file, naming its process; corrupt_data if the file to
// append to has another format.
class FileLogger : public MetricLogger {
 public:
  void on_claim();
  void on_start(const Elapsed& elapsed);
  // A resumed run continues the file that it wrote before, as with LoggerOptions::append.
  void persist(Archive& archive);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  // For loops written by hand, too: writes everything to disk and unlocks the file.
  void on_end();

 protected:
  explicit FileLogger(const std::shared_ptr<detail::RunWriter>& writer);

 private:
  std::shared_ptr<detail::RunWriter> writer_;
  std::shared_ptr<void> claim_;  // held while it writes
};

}  // namespace giro
