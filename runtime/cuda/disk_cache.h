#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <giro/runtime/files/file_system.h>

namespace giro::cuda {

// A cache on disk of compiled kernels and library plans that earlier runs built for a GPU. There is one file for each
// key. Several processes and threads may use it. A file that cannot be read or is not valid counts as missing. After a
// failed write nothing more is stored.
class DiskCache {
 public:
  // In `directory` (no cache if empty). Keeps at most `max_bytes`: the most recently used files. Stores nothing if
  // `failure` is not empty.
  DiskCache(std::shared_ptr<FileSystem> files, std::string directory, std::uint64_t max_bytes,
            std::string failure = {});
  // In the directory GIRO_CACHE, off if that is empty or "0"; if unset, in giro/ of XDG_CACHE_HOME or of ~/.cache.
  static DiskCache from_environment();
  // The cache of this process's kernels and plans, from from_environment().
  static DiskCache& instance();

  // `key` is everything that the value depends on, e.g. source and compiler.
  std::optional<std::string> find(const std::string& key) const;
  void add(const std::string& key, const std::string& value);

  // Why storing failed, empty if it has not: "cannot create '/root/.cache/giro': ...".
  std::string failure() const;

 private:
  std::string path_of(const std::string& key) const;
  void remove_oldest(const std::string& but);

  std::shared_ptr<FileSystem> files_;
  std::string directory_;
  std::uint64_t max_bytes_;
  mutable std::mutex mutex_;  // for add() and failure_
  std::string failure_;
};

}  // namespace giro::cuda
