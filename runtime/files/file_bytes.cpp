#include "runtime/files/file_bytes.h"

#include <algorithm>

namespace giro::detail {

FileBytes read_bytes(FileSystem& files, const std::string& path, Checksum* checksum, std::size_t limit) {
  const auto reader = files.open(path);
  FileBytes file;
  const std::size_t size = std::min(limit, reader->size());
  file.data.reset(new char[size]);  // uninitialized; reading fills it
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  while (file.size < size) {
    const std::size_t piece = std::min(kPiece, size - file.size);
    const std::size_t got = reader->read(file.data.get() + file.size, piece);
    if (checksum != nullptr) checksum->add(file.data.get() + file.size, got);
    file.size += got;
    if (got < piece) break;
  }
  return file;
}

}  // namespace giro::detail
