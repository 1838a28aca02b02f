#include "runtime/files/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

constexpr char kOrder = std::endian::native == std::endian::little ? '<' : '>';
constexpr std::string_view kMagic = "\x93NUMPY";

// NumPy's name for a dtype, without the byte order; bf16 has none.
std::string_view numpy_name(DType dtype) {
  constexpr std::string_view kNames[] = {"f4", "", "f2", "f8", "i4", "i8", "u1", "b1"};  // in the order of DType
  return kNames[static_cast<std::size_t>(dtype)];
}

// Reads the dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, with its keys in any order.
class Header {
 public:
  Header(const std::string& path, std::string_view text) : path_(path), rest_(text) {
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !dtype_) {
        dtype_ = dtype();
      } else if (key == "fortran_order" && !fortran_) {
        fortran_ = boolean();
      } else if (key == "shape" && !sizes_) {
        sizes_ = sizes();
      } else {
        fail(fmt::format("an unexpected header key {}", printable(key)));
      }
      if (!take(',') && !peek('}')) expect(',');
    }
    while (take('\n')) continue;
    if (!rest_.empty()) fail("text after the header's dictionary");
    if (!dtype_ || !fortran_ || !sizes_) fail("a header without descr, fortran_order or shape");
    if (*fortran_) unsupported("the array is in Fortran order, expected C order (numpy.ascontiguousarray)");
    if (sizes_->size() > Shape::kMaxRank) {
      unsupported(fmt::format("the array has {} axes, expected at most {}", sizes_->size(), Shape::kMaxRank));
    }
  }

  NpyFile file(std::uint64_t elements) const {
    try {
      return {*dtype_, Shape(std::span<const std::int64_t>(*sizes_)), elements};
    } catch (const Error& error) {
      throw_error(ErrorCode::corrupt_data, "{}: {}", path_, error.what());
    }
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw_error(ErrorCode::corrupt_data, "{}: not an NPY file: found {}", path_, found);
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw_error(ErrorCode::unsupported, "{}: {}", path_, what);
  }

  bool peek(char c) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    return !rest_.empty() && rest_.front() == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("{} in the header where '{}' is expected", printable(rest_.substr(0, 20)), c));
  }
  std::string_view quoted() {
    expect('\'');
    const std::string_view text = rest_.substr(0, rest_.find('\''));
    rest_.remove_prefix(text.size());
    expect('\'');
    return text;
  }
  bool boolean() {
    for (const auto& [word, value] : {std::pair{std::string_view("False"), false}, {"True", true}}) {
      if (!peek(word.front()) || !rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail("a fortran_order that is neither True nor False");
  }
  DType dtype() {
    if (!peek('\'')) unsupported("the elements are records, expected numbers");
    const std::string_view name = quoted();
    for (const DType known : {DType::f32, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean}) {
      if (name.size() != 3 || name.substr(1) != numpy_name(known)) continue;
      if (name[0] == kOrder || (size_of(known) == 1 && name[0] == '|')) return known;
    }
    unsupported(
        fmt::format("elements of dtype {}, expected {}f2, f4, f8, i4, i8, |u1 or |b1", printable(name), kOrder));
  }
  std::vector<std::int64_t> sizes() {
    std::vector<std::int64_t> all;
    bool is_tuple = true;  // one number in parentheses is a number
    expect('(');
    while (!take(')')) {
      std::int64_t size = 0;
      const bool is_digit = !peek('-') && !rest_.empty();
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (!is_digit || error != std::errc()) fail("a shape that is not a tuple of sizes");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      all.push_back(size);
      const bool is_followed = take(',');
      is_tuple = is_followed || all.size() > 1;
      if (!is_followed && !peek(')')) expect(',');
    }
    if (!is_tuple) fail("a shape that is a number, where (n,) is a tuple");
    return all;
  }

  const std::string& path_;
  std::string_view rest_;
  std::optional<DType> dtype_;
  std::optional<bool> fortran_;
  std::optional<std::vector<std::int64_t>> sizes_;
};

}  // namespace

std::string npy_header(DType dtype, const Shape& shape) {
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}",
                                 size_of(dtype) == 1 ? '|' : kOrder, numpy_name(dtype), to_string(shape));
  text.append(kAlignment - 1 - (kPrefix + text.size()) % kAlignment, ' ');
  text += '\n';
  const std::size_t size = text.size();
  return std::string(kMagic) + '\1' + '\0' + static_cast<char>(size & 0xff) + static_cast<char>(size >> 8) + text;
}

NpyFile read_npy_header(const std::string& path, FileSystem& files) {
  constexpr std::uint64_t kMaxHeaderBytes = 1 << 16;
  const std::unique_ptr<FileSystem::Reader> file = files.open(path);
  const auto corrupt = [&](const std::string& what) {
    return Error(ErrorCode::corrupt_data, fmt::format("{}: {}", path, what));
  };
  unsigned char prefix[12]{};
  const std::size_t got = file->read_at(0, prefix, sizeof prefix);
  if (got < kMagic.size() || !std::equal(kMagic.begin(), kMagic.end(), reinterpret_cast<const char*>(prefix))) {
    throw corrupt(R"(not an NPY file, which begins with "\x93NUMPY")");
  }
  const unsigned version = prefix[6], minor = prefix[7];
  const std::uint64_t begin = version == 1 ? 10 : 12;
  if (got < begin) throw corrupt("the file ends within the header");
  if (version < 1 || version > 3 || minor != 0) {
    throw corrupt(fmt::format("NPY version {}.{}, expected 1.0, 2.0 or 3.0", version, minor));
  }
  std::uint64_t size = prefix[8] | prefix[9] << 8;
  if (version > 1) size |= std::uint64_t{prefix[10]} << 16 | std::uint64_t{prefix[11]} << 24;
  if (size > kMaxHeaderBytes)
    throw corrupt(fmt::format("a header of {} bytes, expected at most {}", size, kMaxHeaderBytes));
  std::string text(size, '\0');
  if (file->read_at(begin, text.data(), size) < size) throw corrupt("the file ends within the header");

  const NpyFile npy = Header(path, text).file(begin + size);
  const std::uint64_t count = static_cast<std::uint64_t>(npy.shape.count()), bytes = file->size();
  if (count > (~std::uint64_t{0} >> 1) / size_of(npy.dtype) || npy.elements + count * size_of(npy.dtype) != bytes) {
    throw corrupt(
        fmt::format("the header declares {}{}, {} elements of {} bytes after {} bytes, but the file has {} bytes",
                    name_of(npy.dtype), to_string(npy.shape), count, size_of(npy.dtype), npy.elements, bytes));
  }
  return npy;
}

}  // namespace giro::detail
