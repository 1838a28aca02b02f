#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/file_system.h>

#include "runtime/files/manifest.h"

namespace giro::detail {

// How processes that save together find each other's shards. They all know the name of a directory, where each leaves a
// receipt once its files are durable. So they share only the file system, which a thread that saves during the run can
// use too. A save retried with the same id keeps the receipts already received.
class ShardGroup {
 public:
  ShardGroup(SaveGroup group, FileSystem& files) : group_(std::move(group)), files_(files) {}

  // Whether there are other shards.
  explicit operator bool() const noexcept { return group_.shard.count > 1; }
  const Shard& shard() const noexcept { return group_.shard; }

  void begin(const std::string& id);
  // The directory of the current save.
  std::string unit_name(std::int64_t steps) const;
  // Leaves the receipt: the files of this shard are durable in `unit`.
  void send(const std::string& unit, std::vector<Manifest::File> files) const;
  // Waits for the files of all other shards and returns them in shard order. Error(communication), naming the shards
  // that do not arrive in time.
  std::vector<Manifest::File> receive(const std::string& unit);
  void remove_receipts(const std::string& unit) const;
  // Whether the checkpoint has its final name.
  bool is_named() const noexcept { return is_named_; }
  void set_named() noexcept { is_named_ = true; }

 private:
  SaveGroup group_;
  FileSystem& files_;
  std::string id_;
  std::vector<std::optional<std::vector<Manifest::File>>> received_;  // of shards 1 and up
  bool is_named_ = false;
};

}  // namespace giro::detail
