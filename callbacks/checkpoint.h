#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <giro/loop/elapsed.h>
#include <giro/runtime/file_system.h>
#include <giro/runtime/state.h>

namespace giro {

struct CheckpointOptions {
  std::int64_t keep = 1;  // how many of the newest stay; at least 1
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// A callback that saves the state's saved collections to `<dir>/checkpoint_<completed steps>.safetensors`, the number in
// ten digits, with elapsed steps, samples and time in the metadata. Completed steps are those that the state's scalar
// "step" tells, so it may stand before or after the train step; without that leaf, elapsed.steps + 1. The samples of a
// step that `elapsed` does not count yet are taken to be the mean of those before. A file is there whole or not at all,
// and an older one goes only after the newer one is durable. Errors: io; invalid_argument for keep < 1 or no directory.
class Checkpoint {
 public:
  Checkpoint(std::string dir, CheckpointOptions options);
  void operator()(const Elapsed& elapsed, State& state) const;

 private:
  std::string dir_;
  CheckpointOptions options_;
};
Checkpoint checkpoint(const std::string& dir, const CheckpointOptions& options = {});

// Reads a checkpoint into a state of the same structure, and returns where it was taken: completed steps, samples and
// seconds. `path` is a file, or a directory, whose newest checkpoint is taken. The state changes only if the whole file is
// good; collections that are not saved stay as they are. Errors: io, not_found, corrupt_data, unsupported,
// shape_mismatch, dtype_mismatch, each naming the file and, where there is one, the leaf.
Elapsed restore(State& state, const std::string& path, FileSystem& files = *posix_file_system());

}  // namespace giro
