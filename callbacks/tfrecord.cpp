#include "callbacks/tfrecord.h"

#include <isa-l/crc.h>

#include <bit>
#include <cstddef>

#include "callbacks/protobuf.h"

namespace giro::detail {
namespace {

std::uint64_t read_little_endian(std::string_view data, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(data[i]);
  return value;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view data) {
  constexpr std::size_t kMax = std::size_t{1} << 30;  // the library counts in int
  std::uint32_t crc = ~std::uint32_t{0};
  while (!data.empty()) {
    const std::string_view piece = data.substr(0, kMax);
    // The library only reads, but its signature lacks const.
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

std::optional<std::string_view> take_tfrecord(std::string_view& file) {
  constexpr std::size_t kHeader = 12, kFooter = 4;
  if (file.size() < kHeader + kFooter) return {};
  const std::uint64_t size = read_little_endian(file, 8);
  if (read_little_endian(file.substr(8), 4) != masked_crc32c(file.substr(0, 8))) return {};
  if (size > file.size() - kHeader - kFooter) return {};
  const std::string_view data = file.substr(kHeader, size);
  if (read_little_endian(file.substr(kHeader + size), 4) != masked_crc32c(data)) return {};
  file.remove_prefix(kHeader + size + kFooter);
  return data;
}

}  // namespace giro::detail
