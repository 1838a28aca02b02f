#include "loop/data/internal/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/error.h>

namespace giro::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{1} << 16;

// Reads the bytes of a file's content, inflating them if they are gzip.
class ByteReader {
 public:
  ByteReader(const std::string& path, std::vector<char> content) : path_(path), content_(std::move(content)) {
    next_ = reinterpret_cast<unsigned char*>(content_.data());
    available_ = content_.size();
    if (available_ >= 2 && next_[0] == 0x1f && next_[1] == 0x8b) {
      constexpr int kGzipOnly = 16;
      if (inflateInit2(&zlib_, MAX_WBITS + kGzipOnly) != Z_OK) {
        throw Error(ErrorCode::out_of_memory, fmt::format("{}: not enough memory to inflate it", path));
      }
      is_gzip_ = true;
    }
  }
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;
  ~ByteReader() {
    if (is_gzip_) inflateEnd(&zlib_);
  }

  bool is_gzip() const { return is_gzip_; }

  // The rest of the content; only for a file that is not gzip.
  std::vector<char> take_rest() {
    content_.erase(content_.begin(), content_.end() - static_cast<std::ptrdiff_t>(available_));
    return std::move(content_);
  }

  // Reads up to `size` bytes; fewer only at the end of the file.
  std::size_t read(void* out, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
      if (available_ == 0 && (!is_gzip_ || member_ended_)) break;
      unsigned char* const target = static_cast<unsigned char*>(out) + done;
      done += is_gzip_ ? inflate_some(target, size - done) : take(target, size - done);
    }
    return done;
  }

 private:
  std::size_t take(unsigned char* out, std::size_t size) {
    const std::size_t count = std::min(size, available_);
    std::memcpy(out, next_, count);
    next_ += count;
    available_ -= count;
    return count;
  }

  std::size_t inflate_some(unsigned char* out, std::size_t size) {
    if (member_ended_) {  // a gzip file may hold several members
      inflateReset(&zlib_);
      member_ended_ = false;
    }
    const auto room = static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
    zlib_.next_in = next_;
    const auto input = static_cast<uInt>(std::min<std::size_t>(available_, std::numeric_limits<uInt>::max()));
    zlib_.avail_in = input;
    zlib_.next_out = out;
    zlib_.avail_out = room;
    const int status = inflate(&zlib_, Z_NO_FLUSH);
    next_ = zlib_.next_in;
    available_ -= input - zlib_.avail_in;
    const std::size_t produced = room - zlib_.avail_out;
    member_ended_ = status == Z_STREAM_END;
    if (status == Z_OK || status == Z_STREAM_END) return produced;
    if (status == Z_MEM_ERROR) {
      throw Error(ErrorCode::out_of_memory, fmt::format("{}: not enough memory to inflate it", path_));
    }
    const bool truncated = status == Z_BUF_ERROR;
    throw Error(ErrorCode::corrupt_data,
                truncated ? fmt::format("{}: the gzip data is truncated", path_)
                          : fmt::format("{}: the gzip data is damaged: {}", path_, zlib_.msg ? zlib_.msg : "unknown"));
  }

  std::string path_;
  std::vector<char> content_;
  unsigned char* next_ = nullptr;  // the unread content
  std::size_t available_ = 0;
  bool is_gzip_ = false;
  bool member_ended_ = false;
  z_stream zlib_{};
};

std::uint32_t big_endian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

DType element_type(unsigned char code, const std::string& path) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    case 0x09:
    case 0x0B:
      throw Error(ErrorCode::unsupported, fmt::format("{}: holds {} elements, expected u8, i32, f32 or f64", path,
                                                      code == 0x09 ? "i8" : "i16"));
    default:
      throw Error(
          ErrorCode::corrupt_data,
          fmt::format("{}: not an IDX file: element type {:#04x}, expected 0x08, 0x0c, 0x0d or 0x0e", path, code));
  }
}

// Bytes of all elements, or nothing if the number overflows.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& sizes, DType dtype) {
  std::uint64_t bytes = size_of(dtype);
  bool empty = false;
  for (const std::int64_t size : sizes) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor == 0) {
      empty = true;
    } else if (bytes > std::uint64_t{std::numeric_limits<std::int64_t>::max()} / factor) {
      return std::nullopt;
    } else {
      bytes *= factor;
    }
  }
  return empty ? 0 : bytes;
}

// Reads `size` bytes, or fewer if the file ends first. The buffer starts with at most `at_first` bytes and doubles as
// it fills, so that a wrong header cannot demand a huge allocation.
Buffer read_buffer(ByteReader& reader, std::uint64_t size, std::uint64_t at_first, std::uint64_t& done) {
  done = 0;
  auto capacity = std::min(size, at_first);
  Buffer buffer = Buffer::allocate(Device::cpu(), capacity);
  while (true) {
    const std::size_t wanted = capacity - done;
    const std::size_t got = reader.read(static_cast<char*>(buffer.data()) + done, wanted);
    done += got;
    if (got < wanted || done == size) return buffer;
    capacity = std::min(size, 2 * capacity);
    Buffer larger = Buffer::allocate(Device::cpu(), capacity);
    std::memcpy(larger.data(), buffer.data(), done);
    buffer = std::move(larger);
  }
}

std::vector<char> read_file(const std::string& path, FileSystem& files) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::exists(status) && !fs::is_regular_file(status)) {  // reading a pipe might never end
    throw Error(ErrorCode::io, fmt::format("{}: not a regular file", path));
  }
  return files.read(path);
}

std::vector<char> read_packed(const std::string& path, FileSystem& files) {
  try {
    return read_file(path + ".gz", files);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::not_found, fmt::format("{}: no such file, nor one ending in .gz", path));
  }
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
  try {
    content = read_file(path, files);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    file.path += ".gz";
    content = read_packed(path, files);
  }
  const std::uint64_t file_size = content.size();
  ByteReader reader(file.path, std::move(content));
  const auto read_header = [&](unsigned char* out, std::size_t size) {
    if (reader.read(out, size) < size) {
      throw Error(ErrorCode::corrupt_data, fmt::format("{}: not an IDX file: it ends within the header", file.path));
    }
  };
  unsigned char magic[4];
  read_header(magic, sizeof magic);
  file.magic = big_endian(magic);
  if (magic[0] != 0 || magic[1] != 0) {
    throw Error(
        ErrorCode::corrupt_data,
        fmt::format("{}: not an IDX file: magic {:08x}, expected it to begin with 0000", file.path, file.magic));
  }
  const DType dtype = element_type(magic[2], file.path);
  if (magic[3] > Shape::kMaxRank) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: has {} axes, expected at most {}", file.path, magic[3], Shape::kMaxRank));
  }
  std::vector<std::int64_t> sizes(magic[3]);
  for (std::int64_t& size : sizes) {
    unsigned char bytes[4];
    read_header(bytes, sizeof bytes);
    size = big_endian(bytes);
  }

  const std::optional<std::uint64_t> expected = byte_count(sizes, dtype);
  if (!expected) {
    throw Error(ErrorCode::corrupt_data, fmt::format("{}: the header declares shape ({}), more than any file can hold",
                                                     file.path, fmt::join(sizes, ", ")));
  }
  const auto wrong_size = [&](const std::string& found) {
    return Error(ErrorCode::corrupt_data,
                 fmt::format("{}: the header declares {} bytes of data ({} of shape ({})), found {}", file.path,
                             *expected, name_of(dtype), fmt::join(sizes, ", "), found));
  };
  void* elements = nullptr;
  if (reader.is_gzip()) {
    std::uint64_t found = 0;
    const auto buffer = std::make_shared<Buffer>(read_buffer(reader, *expected, file_size + kChunk, found));
    if (found < *expected) throw wrong_size(fmt::format("{}", found));
    char extra;
    if (reader.read(&extra, 1) > 0) throw wrong_size("more");
    elements = buffer->data();
    file.memory = buffer;
  } else {
    const auto rest = std::make_shared<std::vector<char>>(reader.take_rest());
    if (rest->size() != *expected) throw wrong_size(fmt::format("{}", rest->size()));
    elements = rest->data();
    file.memory = rest;
  }
  file.values = Tensor(elements, dtype, Shape(sizes), Device::cpu());
  to_native(file.values);
  return file;
}

}  // namespace giro::data
