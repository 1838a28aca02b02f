#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/checkpoint_store.h>
#include <giro/runtime/file_system.h>

#include "runtime/internal/manifest.h"

namespace giro::detail {

// How processes that save together find each other's shards: in a directory whose name all of them know, each leaves a
// receipt once its files are durable. So they need nothing in common but the file system, which a thread that saves
// beside the run has as well. A save that is tried again under the same id goes on with the receipts that have come.
class ShardGroup {
 public:
  ShardGroup(SaveGroup group, FileSystem& files) : group_(std::move(group)), files_(files) {}

  // Whether there are others.
  explicit operator bool() const noexcept { return group_.shard.count > 1; }
  const Shard& shard() const noexcept { return group_.shard; }

  void begin(const std::string& id);
  // Where the save at hand is written.
  std::string unit_name(std::int64_t steps) const;
  // The files of this shard are durable in `unit`.
  void send(const std::string& unit, const std::vector<Manifest::File>& files) const;
  // Waits for the files of all other shards: in their order. Error(communication), naming the shards, if they do not
  // come in time.
  std::vector<Manifest::File> receive(const std::string& unit);
  void remove_receipts(const std::string& unit) const;
  // Whether the checkpoint has its name.
  bool is_named() const noexcept { return is_named_; }
  void set_named() noexcept { is_named_ = true; }

 private:
  SaveGroup group_;
  FileSystem& files_;
  std::string id_;
  std::vector<std::optional<std::vector<Manifest::File>>> received_;  // of shards 1 and on
  bool is_named_ = false;
};

}  // namespace giro::detail
