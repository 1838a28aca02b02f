#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <giro/runtime/file_system.h>
#include <giro/runtime/safetensors.h>

#include "runtime/internal/checksum.h"

namespace giro::detail {

// A file in memory.
struct FileBytes {
  std::shared_ptr<char[]> data;
  std::size_t size = 0;
};

// The first `limit` bytes of a file, fewer if it is shorter; they are added to `checksum` if given.
FileBytes read_bytes(FileSystem& files, const std::string& path, Checksum* checksum = nullptr,
                     std::size_t limit = static_cast<std::size_t>(-1));

// The tensors of a safetensors file, in place or moved within its bytes. Errors as for read_safetensors.
Safetensors parse_safetensors(FileBytes file, const std::string& path);

}  // namespace giro::detail
