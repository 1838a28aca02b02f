#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/file_system.h>

#include "runtime/files/shard_files.h"
#include "runtime/files/store_names.h"

namespace giro::detail {

// The checkpoints of a directory, as their manifests describe them.
struct StoredCheckpoints {
  struct Item {
    StoreEntry entry;
    StoredCheckpoint stored;
    std::vector<std::string> lines;  // names of the files of lines it refers to
  };
  std::deque<Item> items;         // fewest steps first
  std::vector<Error> unreadable;  // damaged, foreign, of a newer version, or unreadable at the moment
};
StoredCheckpoints stored_checkpoints(FileSystem& files, const std::string& dir);
// The newest of these items.
std::optional<StoredCheckpoint> newest_checkpoint(FileSystem& files, const std::string& dir);

// What must be undamaged for a checkpoint to be loaded. LoadedCheckpoint::skipped lists other damage.
enum class Needed { all, all_but_lines, state };
struct LoadRequest {
  Needed needed = Needed::all;
  // The parts of the state's leaves that this process holds: only these are read, verified and returned.
  HeldParts held = {};
  // In a directory, checkpoints of more steps are ignored.
  std::int64_t max_steps = std::numeric_limits<std::int64_t>::max();
};
// Like the public load_checkpoint; from a directory it takes the newest with everything needed undamaged.
LoadedCheckpoint load_checkpoint(FileSystem& files, const std::string& path, const LoadRequest& request);
// The parts of leaves that a state's sharded collections hold.
HeldParts held_parts(const State& state);

// Whether an older checkpoint is tried after one fails with this error.
bool is_damaged(const Error& error);

}  // namespace giro::detail
