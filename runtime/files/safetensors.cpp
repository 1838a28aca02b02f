#include <giro/runtime/files/safetensors.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include <giro/runtime/error.h>

#include "runtime/files/file_operations.h"
#include "runtime/files/safetensors_format.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {

namespace {

using namespace detail::safetensors;

struct Entry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  std::vector<std::uint64_t> offsets;  // begin and end, relative to the data

  std::uint64_t begin() const { return offsets[0]; }
  std::uint64_t end() const { return offsets[1]; }
};

// Interprets the header while it is parsed, which detects repeated keys and stops at the first error.
class HeaderParser final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderParser(std::string path) : path_(std::move(path)) {}

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  [[noreturn]] void fail(const std::string& what, ErrorCode code = ErrorCode::corrupt_data) const {
    throw_error(code, "safetensors file '{}': {}", path_, what);
  }

  [[noreturn]] void fail_json(std::size_t position) const {
    fail(fmt::format("its header is not valid JSON at byte {} of it", position));
  }

  bool null() override { unexpected(); }
  bool boolean(bool) override { unexpected(); }
  bool number_integer(number_integer_t) override { unexpected(); }
  bool number_float(number_float_t, const string_t&) override { unexpected(); }
  bool binary(binary_t&) override { unexpected(); }

  bool number_unsigned(number_unsigned_t number) override {
    if (in_list_ && place_ == Place::shape) {
      if (number > std::numeric_limits<std::int64_t>::max()) {
        fail(fmt::format("the shape of tensor {} overflows 63 bits", printable(name_)));
      }
      if (entries.back().sizes.size() == Shape::kMaxRank) {
        fail(fmt::format("tensor {} has more than {} axes", printable(name_), Shape::kMaxRank), ErrorCode::unsupported);
      }
      entries.back().sizes.push_back(static_cast<std::int64_t>(number));
    } else if (in_list_ && entries.back().offsets.size() < 2) {
      entries.back().offsets.push_back(number);
    } else {
      unexpected();
    }
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata_text) {
      metadata[name_] = text;
    } else if (place_ == Place::dtype) {
      const auto* known = std::find(std::begin(kDTypes), std::end(kDTypes), text);
      if (known == std::end(kDTypes)) {
        fail(fmt::format("tensor {} has the dtype {}", printable(name_), printable(text)), ErrorCode::unsupported);
      }
      entries.back().dtype = static_cast<DType>(known - std::begin(kDTypes));
    } else {
      unexpected();
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ != Place::header && place_ != Place::metadata && place_ != Place::entry) unexpected();
    ++depth_;
    return true;
  }

  bool key(string_t& key) override {
    const bool is_outer = depth_ == 1;
    const bool is_field = !is_outer && !in_metadata_;
    if (!is_field && !(is_outer && key == kMetadata) && entries.size() + metadata.size() == kMaxEntries) {
      fail(fmt::format("it has more than {} tensors and metadata entries", kMaxEntries), ErrorCode::unsupported);
    }
    if (is_field) {
      const auto* field = std::find(std::begin(kFields), std::end(kFields), key);
      if (field == std::end(kFields)) {
        fail(fmt::format("tensor {} has the unknown field {}", printable(name_), printable(key)));
      }
      bool& seen = seen_[static_cast<std::size_t>(field - std::begin(kFields))];
      if (std::exchange(seen, true)) fail(fmt::format("tensor {} has {} twice", printable(name_), printable(key)));
      place_ = kPlaces[field - std::begin(kFields)];
    } else if (!is_outer) {
      if (metadata.contains(key)) fail(fmt::format("metadata {} appears twice", printable(key)));
      place_ = Place::metadata_text;
    } else if (key == kMetadata) {
      if (std::exchange(has_metadata_, true)) fail(fmt::format("'{}' appears twice", kMetadata));
      in_metadata_ = true;
      place_ = Place::metadata;
    } else {
      entries.emplace_back().name = key;
      seen_ = {};
      in_metadata_ = false;
      place_ = Place::entry;
    }
    if (!is_field) name_ = key;
    return true;
  }

  bool end_object() override {
    const auto missing = std::find(seen_.begin(), seen_.end(), false);
    if (--depth_ == 1 && !in_metadata_ && missing != seen_.end()) {
      fail(fmt::format("tensor {} has no {}", printable(name_), kFields[missing - seen_.begin()]));
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (in_list_ || (place_ != Place::shape && place_ != Place::offsets)) unexpected();
    in_list_ = true;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && entries.back().offsets.size() != 2) unexpected();
    in_list_ = false;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail_json(position);
  }

 private:
  // What the next value is, or the list that is being parsed.
  enum class Place { header, metadata, metadata_text, entry, dtype, shape, offsets };
  // The fields of a tensor's entry, and what their values are.
  static constexpr std::string_view kFields[] = {"dtype", "shape", "data_offsets"};
  static constexpr Place kPlaces[] = {Place::dtype, Place::shape, Place::offsets};

  // What is said of any other value, by its place; {} is the name of the tensor or metadata.
  static constexpr const char* kUnexpected[] = {"its header is not an object",
                                                "'__metadata__' is not an object",
                                                "metadata {} is not a string",
                                                "tensor {} is not described by an object",
                                                "the dtype of tensor {} is not a string",
                                                "the shape of tensor {} is not a list of sizes",
                                                "the data_offsets of tensor {} are not two offsets"};

  [[noreturn]] void unexpected() const {
    fail(fmt::format(fmt::runtime(kUnexpected[static_cast<std::size_t>(place_)]), printable(name_)));
  }

  std::string path_;
  Place place_ = Place::header;
  int depth_ = 0;  // in objects
  bool in_list_ = false, in_metadata_ = false, has_metadata_ = false;
  std::array<bool, 3> seen_{};  // the fields of the latest entry
  std::string name_;            // of the tensor or metadata being parsed
};

void check_names(const HeaderParser& header) {
  std::vector<std::string_view> names;
  names.reserve(header.entries.size());
  for (const Entry& entry : header.entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) header.fail(fmt::format("tensor {} appears twice", printable(*twice)));
}

// Parses the header of a file of `file_bytes` bytes; returns where the data begins.
std::size_t read_header(const ReadBytes& read, std::uint64_t file_bytes, HeaderParser& header) {
  if (file_bytes < kPrefix) header.fail(fmt::format("it has {} bytes, expected at least {}", file_bytes, kPrefix));
  std::uint64_t size = 0;
  read(0, kPrefix, &size);
  if (size > kMaxHeader) header.fail(fmt::format("its header claims {} bytes, more than {}", size, kMaxHeader));
  if (size > file_bytes - kPrefix) {
    header.fail(fmt::format("its header claims {} bytes, but the file has {} in all", size, file_bytes));
  }
  std::string text(size, '\0');
  read(kPrefix, text.size(), text.data());
  if (!text.starts_with('{')) header.fail("its header does not begin with '{'");
  // The parser would take a zero byte for the end.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) header.fail_json(zero + 1);
  nlohmann::json::sax_parse(text.begin(), text.end(), &header);
  check_names(header);
  return kPrefix + text.size();
}

// Sorts the entries by the position of their data, and checks that the data fits the shapes and fills the file.
void check_layout(HeaderParser& header, std::uint64_t data_bytes) {
  std::ranges::sort(header.entries, {}, [](const Entry& entry) {
    return std::tuple(entry.begin(), entry.end(), std::string_view(entry.name));
  });
  std::uint64_t position = 0;
  for (const Entry& entry : header.entries) {
    const std::string name = printable(entry.name);
    if (entry.begin() > entry.end()) {
      header.fail(fmt::format("tensor {} begins at byte {} and ends at byte {}", name, entry.begin(), entry.end()));
    }
    std::uint64_t count = 0;
    try {
      count = static_cast<std::uint64_t>(Shape(entry.sizes).count());
    } catch (const Error& error) {
      header.fail(fmt::format("tensor {}: {}", name, error.what()));
    }
    const std::uint64_t bytes = entry.end() - entry.begin();
    if (bytes % size_of(entry.dtype) != 0 || bytes / size_of(entry.dtype) != count) {
      header.fail(fmt::format("tensor {} is {}({}), but its data has {} bytes", name, name_of(entry.dtype),
                              fmt::join(entry.sizes, ", "), bytes));
    }
    if (entry.begin() < position) {
      header.fail(fmt::format("tensor {} begins at byte {} of the data, within the one that ends at byte {}", name,
                              entry.begin(), position));
    }
    if (entry.begin() > position) {
      header.fail(fmt::format("bytes {} to {} of the data belong to no tensor", position, entry.begin()));
    }
    if (entry.end() > data_bytes) {
      header.fail(
          fmt::format("tensor {} ends at byte {} of the data, which has {} bytes", name, entry.end(), data_bytes));
    }
    position = entry.end();
  }
  if (position != data_bytes) {
    header.fail(fmt::format("{} bytes follow the last tensor", data_bytes - position));
  }
}

// Moves each tensor to an aligned position, since other writers may not align them. Tensors move towards the front: an
// entry takes more bytes of the header than alignment adds.
void align(char* file, Layout& layout) {
  const auto is_aligned = [](const Layout::Stored& stored) { return stored.begin % size_of(stored.dtype) == 0; };
  if (std::ranges::all_of(layout.tensors, is_aligned)) return;
  std::uint64_t end = 0;
  for (Layout::Stored& stored : layout.tensors) {
    const std::size_t size = size_of(stored.dtype), bytes = static_cast<std::size_t>(stored.shape.count()) * size;
    const std::uint64_t from = std::exchange(stored.begin, (end + size - 1) / size * size);
    std::memmove(file + stored.begin, file + from, bytes);
    end = stored.begin + bytes;
  }
}

}  // namespace

detail::safetensors::Layout detail::safetensors::read_layout(const ReadBytes& read, std::uint64_t file_bytes,
                                                             const std::string& path) {
  HeaderParser header(path);
  const std::size_t data = read_header(read, file_bytes, header);
  check_layout(header, file_bytes - data);
  Layout layout{{}, std::move(header.metadata)};
  layout.tensors.reserve(header.entries.size());
  for (Entry& entry : header.entries) {
    layout.tensors.push_back({std::move(entry.name), entry.dtype, Shape(entry.sizes), data + entry.begin()});
  }
  return layout;
}

Safetensors read_safetensors(FileSystem& files, const std::string& path) {
  detail::FileBytes file = detail::read_bytes(files, path);
  char* const bytes = file.data.get();
  const auto read = [&](std::uint64_t begin, std::size_t size, void* data) { std::memcpy(data, bytes + begin, size); };
  Layout layout = read_layout(read, file.size, path);
  align(bytes, layout);

  Safetensors result;
  result.tensors.reserve(layout.tensors.size());
  for (Layout::Stored& stored : layout.tensors) {
    result.tensors.push_back(
        {std::move(stored.name), Tensor(bytes + stored.begin, stored.dtype, stored.shape, Device::cpu())});
  }
  result.metadata = std::move(layout.metadata);
  result.memory = std::move(file.data);
  return result;
}

std::map<std::string, std::string> read_safetensors_metadata(FileSystem& files, const std::string& path) {
  HeaderParser header(path);
  const auto reader = files.open(path);
  const auto read = [&](std::uint64_t begin, std::size_t size, void* data) {
    if (reader->read_at(begin, data, size) < size) header.fail("it ends within its header");
  };
  read_header(read, reader->size(), header);
  return std::move(header.metadata);
}

}  // namespace giro
