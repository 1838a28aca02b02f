#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <giro/runtime/file_system.h>

namespace giro::cuda {

// A file cache of machine code that earlier runs compiled: one file for each source together with everything else that
// the code depends on. Several processes may use it. A file that cannot be read or is not valid counts as missing.
// After a failed write nothing more is stored.
class KernelCache {
 public:
  // In `directory` (no cache if empty). Keeps at most `most_bytes`: the most recently used files.
  KernelCache(std::shared_ptr<FileSystem> files, std::string directory, std::uint64_t most_bytes);
  // In the directory GIRO_CACHE, off if that is empty or "0"; if unset, in giro/ of XDG_CACHE_HOME or of ~/.cache.
  static KernelCache of_environment();

  // `key` is everything that the code depends on, e.g. source and compiler.
  std::optional<std::string> find(const std::string& key);
  void add(const std::string& key, const std::string& code);

  // Why storing failed, empty if it has not: "cannot create '/root/.cache/giro': ...".
  const std::string& trouble() const noexcept { return trouble_; }

 private:
  std::string path_of(const std::string& key) const;
  void remove_oldest(const std::string& but);

  std::shared_ptr<FileSystem> files_;
  std::string directory_;
  std::uint64_t most_bytes_;
  std::string trouble_;
};

}  // namespace giro::cuda
