#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/runtime/checkpoint_store.h>
#include <giro/runtime/file_system.h>

#include "runtime/internal/manifest.h"
#include "runtime/internal/store_names.h"

namespace giro::detail {

// How processes that save together find each other's shards: in a directory whose name all of them know, each leaves a
// receipt once its files are durable. So they need nothing in common but the file system, which a thread that saves
// beside the run has as well.
class ShardGroup {
 public:
  ShardGroup(SaveGroup group, FileSystem& files) : group_(std::move(group)), files_(files) {}

  // Whether there are others.
  explicit operator bool() const noexcept { return group_.shard.count > 1; }
  const Shard& shard() const noexcept { return group_.shard; }

  // Where the save at hand is written.
  std::string unit_name(std::int64_t steps) const;
  // Whether others may be writing there: in this save, or already in a later one.
  bool may_be_written(const StoreEntry& entry) const;
  // The files of this shard are durable in `unit`.
  void send(const std::string& unit, const std::vector<Manifest::File>& files) const;
  // Waits for the files of all other shards, in their order, and removes the receipts. Error(communication), naming the
  // shards, if they do not come in time.
  std::vector<Manifest::File> receive(const std::string& unit) const;
  // The save at hand has succeeded.
  void next() { ++saves_; }

 private:
  SaveGroup group_;
  FileSystem& files_;
  std::int64_t saves_ = 0;
};

}  // namespace giro::detail
