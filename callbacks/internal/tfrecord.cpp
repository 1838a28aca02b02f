#include "callbacks/internal/tfrecord.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "callbacks/internal/protobuf.h"

namespace giro::detail {

std::uint32_t masked_crc32c(std::string_view data) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // the library counts in int
  std::uint32_t crc = ~std::uint32_t{0};
  while (!data.empty()) {
    const std::string_view piece = data.substr(0, kMost);
    // It reads what its old signature calls writable.
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<char*>(piece.data()));
    crc = ::crc32_iscsi(bytes, static_cast<int>(piece.size()), crc);
    data.remove_prefix(piece.size());
  }
  return std::rotr(~crc, 15) + 0xA282EAD8u;
}

void append_tfrecord(std::string& out, std::string_view data) {
  const std::size_t begin = out.size();
  append_little_endian(out, data.size(), 8);
  append_little_endian(out, masked_crc32c(std::string_view(out).substr(begin, 8)), 4);
  out += data;
  append_little_endian(out, masked_crc32c(data), 4);
}

}  // namespace giro::detail
