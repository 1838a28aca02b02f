#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <giro/runtime/files/file_system.h>

#include "runtime/checksum.h"

namespace giro::detail {

// A file in memory.
struct FileBytes {
  std::shared_ptr<char[]> data;
  std::size_t size = 0;
};

// The first `limit` bytes of a file, fewer if it is shorter; they are added to `checksum` if given.
FileBytes read_bytes(FileSystem& files, const std::string& path, Checksum* checksum = nullptr,
                     std::size_t limit = static_cast<std::size_t>(-1));

}  // namespace giro::detail
