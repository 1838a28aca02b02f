#pragma once

#include <memory>
#include <string>

#include <giro/kernels/nn/partitioner.h>
#include <giro/runtime/files/file_system.h>

namespace giro {

struct RunDirectoryOptions {
  bool resume = false;            // whether to continue an existing run
  std::string parent = "logdir";  // of the numbered directories
  std::shared_ptr<FileSystem> files = posix_file_system();
  std::shared_ptr<const Partitioner> partitioner = {};  // if several ranks write to one directory
};

// The directory for a run's files, created if needed. If `dir` is empty, each run gets a new one, `<parent>/1`,
// `<parent>/2` and so on, or with `resume` the newest of these, if there is any. Otherwise it is `dir` itself, for a
// single run: a second start without `resume` is an error, so that no run overwrites the files of another.
//
//   const std::string logdir = giro::run_directory(args.logdir, {.resume = args.resume});
//
// With a partitioner all ranks make this call, and rank 0 chooses. Errors: invalid_argument for a directory that is not
// empty, without `resume`; io, also if no files can be created in it. The other ranks throw rank 0's error.
std::string run_directory(const std::string& dir, const RunDirectoryOptions& options = {});

}  // namespace giro
