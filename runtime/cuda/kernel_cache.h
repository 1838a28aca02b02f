#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <giro/runtime/file_system.h>

namespace giro::cuda {

// Machine code that other runs have compiled, in files: one for each source, with all that the code depends on besides.
// Several processes may use it. What cannot be read, or is not what it should be, counts as not there; so does all of
// it where it cannot be written.
class KernelCache {
 public:
  // In `directory`, none where that is empty, of at most so many bytes: the files that were used last.
  KernelCache(std::shared_ptr<FileSystem> files, std::string directory, std::uint64_t most_bytes);
  // Where GIRO_CACHE says, which is off if that is empty or "0"; else in giro/ of XDG_CACHE_HOME or of ~/.cache.
  static KernelCache of_environment();

  // `key` is all that the code depends on, source and compiler.
  std::optional<std::string> find(const std::string& key);
  void add(const std::string& key, const std::string& code);

  // Why nothing could be stored, empty if that has not happened: "cannot create '/root/.cache/giro': ...".
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
