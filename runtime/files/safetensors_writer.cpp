#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include <giro/runtime/error.h>
#include <giro/runtime/files/safetensors.h>

#include "runtime/elements.h"
#include "runtime/files/safetensors_format.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using namespace detail::safetensors;

struct Stored {
  const Leaf* leaf;
  DType dtype;

  std::size_t bytes() const { return static_cast<std::size_t>(leaf->value.count()) * size_of(dtype); }
};

void write_values(FileSystem::Writer& file, const Stored& stored) {
  const Tensor& value = stored.leaf->value;
  if (value.dtype() == stored.dtype) return file.write(value.raw(), value.bytes());
  constexpr std::int64_t kElements = 1 << 16;  // at a time
  const Tensor all = value.reshape({value.count()});
  std::vector<char> bytes(std::min(stored.bytes(), kElements * size_of(stored.dtype)));
  for (std::int64_t begin = 0; begin < all.count(); begin += kElements) {
    const Tensor part = all.rows(begin, std::min(begin + kElements, all.count()));
    if (const auto found = detail::out_of_range(part, stored.dtype)) {
      throw_invalid("safetensors: tensor {} holds {}, which {} cannot hold", printable(stored.leaf->path), *found,
                    name_of(stored.dtype));
    }
    const Tensor converted(bytes.data(), stored.dtype, part.shape(), Device::cpu());
    detail::convert(converted, part);
    file.write(converted.raw(), converted.bytes());
  }
}

}  // namespace

void write_safetensors(FileSystem::Writer& file, const std::vector<Leaf>& tensors,
                       const std::map<std::string, std::string>& metadata, std::optional<DType> dtype) {
  if (tensors.size() + metadata.size() > kMaxEntries) {
    throw_invalid("safetensors: {} tensors and metadata entries are more than {}", tensors.size() + metadata.size(),
                  kMaxEntries);
  }
  if (dtype && !is_floating(*dtype)) {
    throw_invalid("safetensors: the dtype to store is {}, expected a floating-point one", name_of(*dtype));
  }
  std::vector<Stored> order;
  std::set<std::string_view> names{kMetadata};
  for (const Leaf& leaf : tensors) {
    if (!names.insert(leaf.path).second) {
      throw_invalid("safetensors: the name {} is already taken", printable(leaf.path));
    }
    if (!leaf.value.device().is_cpu()) {
      throw_error(ErrorCode::device_mismatch, "safetensors: tensor {} is {}, expected it on the host",
                  printable(leaf.path), to_string(leaf.value));
    }
    const DType own = leaf.value.dtype();
    order.push_back({&leaf, dtype && detail::can_convert(own, *dtype) ? *dtype : own});
  }
  // The widest dtypes first, so that all tensors are aligned.
  std::sort(order.begin(), order.end(), [](const Stored& a, const Stored& b) {
    const std::size_t a_size = size_of(a.dtype), b_size = size_of(b.dtype);
    return a_size != b_size ? a_size > b_size : a.leaf->path < b.leaf->path;
  });

  std::string header = "{";
  try {
    if (!metadata.empty()) header += fmt::format("\"{}\":{}", kMetadata, nlohmann::json(metadata).dump());
    std::size_t offset = 0;
    for (const Stored& stored : order) {
      const Shape& shape = stored.leaf->value.shape();
      header +=
          fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header.size() > 1 ? "," : "",
                      nlohmann::json(stored.leaf->path).dump(), kDTypes[static_cast<std::size_t>(stored.dtype)],
                      fmt::join(shape.begin(), shape.end(), ","), offset, offset + stored.bytes());
      offset += stored.bytes();
    }
  } catch (const nlohmann::json::exception&) {
    throw_invalid("safetensors: a name or metadata is not UTF-8");
  }
  header += "}";
  const std::size_t end = (kPrefix + header.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  header.resize(end - kPrefix, ' ');
  const std::uint64_t size = header.size();
  if (size > kMaxHeader) throw_invalid("safetensors: the header would have {} bytes, more than {}", size, kMaxHeader);

  file.write(&size, kPrefix);
  file.write(header.data(), header.size());
  for (const Stored& stored : order) write_values(file, stored);
}

}  // namespace giro
