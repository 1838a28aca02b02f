#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <giro/runtime/files/file_system.h>

#include "runtime/files/internal/manifest.h"
#include "runtime/internal/checksum.h"

namespace giro::detail {

// A file of a checkpoint, readable at any position. Only the parts (Manifest::Part) that contain bytes read are
// verified, each once; a file without parts is one part.
class VerifiedFile {
 public:
  // Errors naming the file: io; not_found; corrupt_data unless it is a file of the size in the manifest.
  VerifiedFile(FileSystem& files, const std::string& unit, const Manifest::File& file);

  const std::string& path() const noexcept { return path_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  // Bytes from `begin` on, all within the file. Error(corrupt_data) if a part that holds some of them does not match
  // its checksum; io.
  void read(std::uint64_t begin, std::size_t size, void* data);

 private:
  struct Part {
    std::uint64_t begin, end;
    std::string xxh3;
    bool is_verified = false;
  };

  void expect(bool holds, const std::string& what) const;
  // Reads bytes [begin, end), and adds them to the checksum if given. Without `data` the last of them are kept in
  // read_ahead_.
  void fetch(std::uint64_t begin, std::uint64_t end, char* data, Checksum* checksum);

  std::string path_;
  std::uint64_t bytes_;
  std::vector<Part> parts_;
  std::unique_ptr<FileSystem::Reader> reader_;
  std::vector<char> read_ahead_;  // bytes verified together with others
  std::uint64_t read_ahead_begin_ = 0;
};

}  // namespace giro::detail
