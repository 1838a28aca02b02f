#pragma once

#include <memory>
#include <string>

#include <giro/kernels/nn/partitioner.h>
#include <giro/runtime/file_system.h>

namespace giro {

struct RunDirectoryOptions {
  bool resume = false;            // whether to go on with a run that is there
  std::string parent = "logdir";  // of the directories that are numbered
  std::shared_ptr<FileSystem> files = posix_file_system();
  std::shared_ptr<const Partitioner> partitioner = {};  // of several ranks, which write to one directory
};

// The directory that a run writes its files to, made if it is not there. Where `dir` is empty, it is one of its own,
// `<parent>/1`, `<parent>/2` and so on, or with `resume` the newest of these, if there is any. Else it is `dir` itself,
// for one run: a program that is started again is refused there without `resume`, so that no run spoils what another
// has left.
//
//   const std::string logdir = giro::run_directory(args.logdir, {.resume = args.resume});
//
// With a partitioner a call of all ranks, of which rank 0 chooses.
// Errors: invalid_argument for a directory that holds a run, without `resume`; io, also where it takes no files.
std::string run_directory(const std::string& dir, const RunDirectoryOptions& options = {});

}  // namespace giro
