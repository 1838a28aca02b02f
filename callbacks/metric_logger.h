#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <giro/callbacks/metric_writer.h>
#include <giro/loop/log/log_schema.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/handle.h>

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

// An observer that passes the numbers of each step it is due in to a MetricWriter, as scalars "<collection>/<name>"
// such as "metrics/loss", at step elapsed.steps. Arrays are left out (see Outputs). It flushes when the loop ends.
// Errors: those of the writer.
//
// csv_logger, jsonl_logger and tensorboard are loggers of files that belong to a run; any other writer does not know
// about resumed runs. They write one record per step, as it arrives. Copies write to the same file, and nothing else
// may: before a loop changes anything, its loggers lock their files until it ends, with a file `.<name>.lock` next to
// each. Errors: invalid_argument (no name, a negative interval); when a loop begins or it is called: io;
// invalid_argument if another logger writes to the file, naming its process; corrupt_data if the file to append to has
// another format.
class MetricLogger {
 public:
  static constexpr bool kPrimaryOnly = true;

  // Error(invalid_argument) for null.
  explicit MetricLogger(std::shared_ptr<MetricWriter> writer);
  void on_claim();
  void on_start(const Elapsed& elapsed);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  // For loops written by hand, too: writes everything to disk and unlocks the file.
  void on_end();

 protected:
  // A resumed run continues the file that it wrote before, as with LoggerOptions::append.
  void persist(Archive& archive);

 private:
  detail::Handle<MetricWriter> writer_;
  detail::RunWriter* run_;       // the writer, if its files belong to a run
  std::shared_ptr<void> claim_;  // held while it writes
  // Most steps log the same entries in the same order, so the tags are kept from one to the next.
  MetricRecord record_;
  LogSchema schema_;                  // of the record's logs
  std::vector<std::size_t> entries_;  // the positions of its scalars in them
};
inline MetricLogger metric_logger(std::shared_ptr<MetricWriter> writer) { return MetricLogger(std::move(writer)); }

}  // namespace giro
