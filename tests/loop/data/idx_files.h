#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace giro::test {

inline std::string big_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xff);
  return text;
}

// An IDX file of this element type, such as 0x08 for u8.
inline std::string idx(unsigned char type, const std::vector<std::uint32_t>& sizes, const std::string& elements) {
  std::string text{'\0', '\0', static_cast<char>(type), static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes) text += big_endian(size, 4);
  return text + elements;
}

inline std::string gzip(const std::string& text) {
  z_stream zlib{};
  EXPECT_EQ(deflateInit2(&zlib, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&zlib, text.size()) + 32, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  zlib.avail_in = static_cast<uInt>(text.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

}  // namespace giro::test
