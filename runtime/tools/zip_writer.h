#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <giro/runtime/file_system.h>

namespace giro::tools {

// Writes a zip archive whose members are stored as they are, in its 64-bit form, which has no limits on sizes.
class ZipWriter {
 public:
  explicit ZipWriter(FileSystem::Writer& file) : file_(file) {}

  // A member that consists of two parts, one after the other. Error(invalid_argument) for a name that could end up
  // elsewhere when it is unpacked, or that an archive cannot hold.
  void add(const std::string& name, std::string_view head, std::string_view body);
  // The directory of what was added: the end of the archive.
  void finish();

 private:
  void write(std::string_view bytes);

  FileSystem::Writer& file_;
  std::uint64_t position_ = 0;
  std::string directory_;
  std::uint64_t members_ = 0;
};

}  // namespace giro::tools
