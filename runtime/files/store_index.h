#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/file_system.h>

#include "runtime/files/stored_checkpoints.h"

namespace giro::detail {

// What a directory of checkpoints holds, as its only writer knows it. It is read once and then kept up to date, so that
// a save does not look at the checkpoints beside it. It is read again after an error, and if the newest checkpoint has
// disappeared.
class StoreIndex {
 public:
  StoreIndex(FileSystem& files, std::string dir) : files_(files), dir_(std::move(dir)) {}

  // The number of checkpoints that can be read.
  std::size_t size() { return known().items.size(); }
  // The steps of the newest one; none if that is not known. Any thread may call this.
  std::optional<std::int64_t> latest_steps() const noexcept;
  // Notes a checkpoint that has just got its name, and may have replaced another.
  void add(StoredCheckpoints::Item item);
  // Removes the checkpoints superseded by the one of `steps`, what was set aside up to there, and then the files of
  // lines that nothing refers to, unless they are `in_use`. Errors: io.
  void prune(std::int64_t steps, const CheckpointStoreOptions& options,
             const std::function<bool(const std::string& lines)>& in_use);
  // Call this after any other change of the directory.
  void forget() noexcept;

 private:
  static constexpr std::int64_t kUnknown = -1;
  struct Known : StoredCheckpoints {
    std::vector<StoreEntry> ahead;
    std::set<std::string> lines;  // names of files of lines
  };
  Known& known();
  void keep(Known known);

  FileSystem& files_;
  std::string dir_;
  std::optional<Known> known_;
  std::atomic<std::int64_t> latest_{kUnknown};
};

}  // namespace giro::detail
