#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "loop/data/idx.h"
#include "tests/fuzz/parse.h"

namespace {

std::string gzip(const std::uint8_t* data, std::size_t size) {
  z_stream zlib{};
  if (deflateInit2(&zlib, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string packed(deflateBound(&zlib, size) + 32, '\0');
  zlib.next_in = const_cast<Bytef*>(data);
  zlib.avail_in = static_cast<uInt>(size);
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&zlib, Z_FINISH) != Z_STREAM_END) std::abort();
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

}  // namespace

// The input's first two bytes are the sizes of the next two pieces, each of which becomes a gzip member with a correct
// checksum. The rest of the input follows unchanged.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t first = std::min<std::size_t>(data[0], size - 2);
  const std::size_t second = std::min<std::size_t>(data[1], size - 2 - first);
  data += 2;
  std::string file = gzip(data, first) + gzip(data + first, second);
  file.append(data + first + second, data + size - 2);
  giro::test::parse(std::move(file),
                    [](giro::FileSystem& files) { giro::test::touch(giro::data::read_idx("file", files).values); });
  return 0;
}
