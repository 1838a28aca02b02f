#include "loop/data/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/files/file_operations.h"
#include "runtime/throw_error.h"

namespace giro::data {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;

bool is_gzip(const std::vector<char>& content) {
  return content.size() >= 2 && content[0] == '\x1f' && content[1] == '\x8b';
}

// The first `limit` bytes of a gzip file's content, or all of them if it holds fewer. The memory starts with the file's
// size and doubles as it fills, so that a wrong header cannot demand a huge allocation.
std::vector<char> inflated(const std::string& path, const std::vector<char>& content, std::uint64_t limit) {
  constexpr int kGzipOnly = 16;
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  const auto out_of_memory = [&] {
    throw_error(ErrorCode::out_of_memory, "{}: not enough memory to inflate it", path);
  };
  z_stream zlib{};
  if (inflateInit2(&zlib, MAX_WBITS + kGzipOnly) != Z_OK) out_of_memory();
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> ends(&zlib, inflateEnd);
  std::vector<char> out(std::min<std::uint64_t>(limit, content.size() + kChunk));
  std::size_t read = 0, done = 0;
  for (bool member_ended = false; done < limit && !(member_ended && read == content.size());) {
    if (done == out.size()) out.resize(std::min<std::uint64_t>(limit, 2 * done));
    if (member_ended) inflateReset(&zlib);  // a gzip file may hold several members
    const auto input = static_cast<uInt>(std::min(content.size() - read, kMost));
    const auto room = static_cast<uInt>(std::min(out.size() - done, kMost));
    zlib.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(content.data())) + read;
    zlib.avail_in = input;
    zlib.next_out = reinterpret_cast<unsigned char*>(out.data()) + done;
    zlib.avail_out = room;
    const int status = inflate(&zlib, Z_NO_FLUSH);
    read += input - zlib.avail_in;
    done += room - zlib.avail_out;
    member_ended = status == Z_STREAM_END;
    if (status == Z_OK || status == Z_STREAM_END) continue;
    if (status == Z_MEM_ERROR) out_of_memory();
    if (status == Z_BUF_ERROR) throw_error(ErrorCode::corrupt_data, "{}: the gzip data is truncated", path);
    throw_error(ErrorCode::corrupt_data, "{}: the gzip data is damaged: {}", path, zlib.msg ? zlib.msg : "unknown");
  }
  out.resize(done);
  return out;
}

std::uint32_t big_endian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

DType element_type(unsigned char code, const std::string& path) {
  constexpr std::pair<unsigned char, DType> kKnown[] = {
      {0x08, DType::u8}, {0x0C, DType::i32}, {0x0D, DType::f32}, {0x0E, DType::f64}};
  for (const auto& [known, dtype] : kKnown) {
    if (code == known) return dtype;
  }
  if (code == 0x09 || code == 0x0B) {
    throw_error(ErrorCode::unsupported, "{}: holds {} elements, expected u8, i32, f32 or f64", path,
                code == 0x09 ? "i8" : "i16");
  }
  throw_error(ErrorCode::corrupt_data, "{}: not an IDX file: element type {:#04x}, expected 0x08, 0x0c, 0x0d or 0x0e",
              path, code);
}

// Bytes of all elements, or nothing if the number overflows.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& sizes, DType dtype) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t size : sizes) {
    if (size > 0 && __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return std::ranges::count(sizes, 0) > 0 ? 0 : static_cast<std::uint64_t>(bytes);
}

// Converts big-endian elements to this machine's byte order.
void to_native(const Tensor& values) {
  if constexpr (std::endian::native == std::endian::little) {
    const std::size_t size = size_of(values.dtype());
    if (size == 1) return;
    char* element = static_cast<char*>(values.raw());
    for (std::int64_t i = 0; i < values.count(); ++i, element += size) std::reverse(element, element + size);
  }
}

}  // namespace

IdxFile read_idx(const std::string& path, FileSystem& files) {
  IdxFile file;
  file.path = path;
  std::vector<char> content;
  const auto read = [&] { content = files.read(file.path); };
  if (!detail::unless_gone(read)) {
    file.path += ".gz";
    if (!detail::unless_gone(read)) {
      throw_error(ErrorCode::not_found, "{}: no such file, nor one ending in .gz", path);
    }
  }
  constexpr std::size_t kMaxHeader = 4 + 4 * Shape::kMaxRank;
  const bool packed = is_gzip(content);
  const std::vector<char> begin =
      packed ? inflated(file.path, content, kMaxHeader)
             : std::vector(content.begin(), content.begin() + std::min(content.size(), kMaxHeader));
  std::size_t header = 0;  // bytes
  const auto read_header = [&] {
    header += 4;
    if (begin.size() >= header) return reinterpret_cast<const unsigned char*>(begin.data()) + header - 4;
    throw_error(ErrorCode::corrupt_data, "{}: not an IDX file: it ends within the header", file.path);
  };
  const unsigned char* const magic = read_header();
  file.magic = big_endian(magic);
  if (magic[0] != 0 || magic[1] != 0) {
    throw_error(ErrorCode::corrupt_data, "{}: not an IDX file: magic {:08x}, expected it to begin with 0000", file.path,
                file.magic);
  }
  const DType dtype = element_type(magic[2], file.path);
  if (magic[3] > Shape::kMaxRank) {
    throw_error(ErrorCode::unsupported, "{}: has {} axes, expected at most {}", file.path, magic[3], Shape::kMaxRank);
  }
  std::vector<std::int64_t> sizes(magic[3]);
  for (std::int64_t& size : sizes) size = big_endian(read_header());

  const std::optional<std::uint64_t> expected = byte_count(sizes, dtype);
  if (!expected) {
    throw_error(ErrorCode::corrupt_data, "{}: the header declares shape ({}), more than any file can hold", file.path,
                fmt::join(sizes, ", "));
  }
  if (packed) content = inflated(file.path, content, header + *expected + 1);  // one byte more would be too many
  const std::uint64_t found = content.size() - header;
  if (found != *expected) {
    throw_error(ErrorCode::corrupt_data, "{}: the header declares {} bytes of data ({} of shape ({})), found {}",
                file.path, *expected, name_of(dtype), fmt::join(sizes, ", "),
                packed && found > *expected ? "more" : fmt::format("{}", found));
  }
  content.erase(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(header));  // aligns the elements
  const auto elements = std::make_shared<std::vector<char>>(std::move(content));
  file.memory = elements;
  file.values = Tensor(elements->data(), dtype, Shape(sizes), Device::cpu());
  to_native(file.values);
  return file;
}

}  // namespace giro::data
