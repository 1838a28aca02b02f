#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <giro/runtime/files/file_system.h>

namespace giro::tools {

// Writes a zip archive of uncompressed members, in the 64-bit format, which has no limits on sizes.
class ZipWriter {
 public:
  explicit ZipWriter(FileSystem::Writer& file) : file_(file) {}

  // Adds a member that consists of two parts, one after the other. Error(invalid_argument) for a name that would be
  // unpacked outside of the target folder, or that an archive cannot hold.
  void add(const std::string& name, std::string_view head, std::string_view body);
  // Writes the directory of the members, which ends the archive.
  void finish();

 private:
  void write(std::string_view bytes);

  FileSystem::Writer& file_;
  std::uint64_t position_ = 0;
  std::string directory_;
  std::uint64_t members_ = 0;
};

}  // namespace giro::tools
