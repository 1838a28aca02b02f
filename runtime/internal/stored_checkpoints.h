#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/runtime/checkpoint_store.h>
#include <giro/runtime/error.h>
#include <giro/runtime/file_system.h>

#include "runtime/internal/store_names.h"

namespace giro::detail {

// The checkpoints of a directory, by their manifests alone.
struct StoredCheckpoints {
  struct Item {
    StoreEntry entry;
    StoredCheckpoint stored;
    std::vector<std::string> lines;  // names of the files of lines it refers to
  };
  std::vector<Item> items;        // fewest steps first
  std::vector<Error> unreadable;  // damaged, foreign, of a newer version, or not to be read just now
};
StoredCheckpoints stored_checkpoints(FileSystem& files, const std::string& dir);

// What of a checkpoint has to be undamaged for it to be loaded. LoadedCheckpoint::skipped tells what else is damaged.
enum class Needed { all, all_but_lines, state };
// As load_checkpoint; of a directory the newest that has what is needed.
LoadedCheckpoint load_checkpoint(FileSystem& files, const std::string& path, Needed needed);

// Whether a record has a better value for an entry of the logs than another, or one where that has none. NaN is none.
bool is_better(const CheckpointRecord& a, const CheckpointRecord& b, const std::string& monitor,
               const std::string& mode);

// Of those, fewest steps first, what goes once there is a checkpoint of `steps`.
std::vector<StoredCheckpoints::Item> superseded(const std::vector<StoredCheckpoints::Item>& items, std::int64_t steps,
                                                const CheckpointStoreOptions& options);

// Whether a checkpoint that cannot be read because of this gives way to an older one.
bool is_damaged(const Error& error);

}  // namespace giro::detail
