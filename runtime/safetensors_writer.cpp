#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/safetensors.h>

#include "runtime/internal/safetensors_format.h"
#include "runtime/internal/text.h"

namespace giro {
namespace {

using namespace detail::safetensors;

std::string_view format_name(DType dtype) {
  const auto same = [&](const auto& known) { return known.first == dtype; };
  return std::find_if(std::begin(kDTypes), std::end(kDTypes), same)->second;
}

}  // namespace

void write_safetensors(FileSystem::Writer& file, const std::vector<Leaf>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  if (tensors.size() + metadata.size() > kMaxEntries) {
    throw Error(ErrorCode::invalid_argument, fmt::format("safetensors: {} tensors and metadata are more than {}",
                                                         tensors.size() + metadata.size(), kMaxEntries));
  }
  std::vector<const Leaf*> order;
  std::set<std::string_view> names{kMetadata};
  for (const Leaf& leaf : tensors) {
    if (!names.insert(leaf.path).second) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("safetensors: the name {} is taken already", printable(leaf.path)));
    }
    if (!leaf.value.device().is_cpu()) {
      throw Error(ErrorCode::device_mismatch, fmt::format("safetensors: tensor {} is {}, expected it on the host",
                                                          printable(leaf.path), to_string(leaf.value)));
    }
    order.push_back(&leaf);
  }
  // The widest dtypes first, so that all tensors are aligned.
  std::sort(order.begin(), order.end(), [](const Leaf* a, const Leaf* b) {
    const std::size_t a_size = size_of(a->value.dtype()), b_size = size_of(b->value.dtype());
    return a_size != b_size ? a_size > b_size : a->path < b->path;
  });

  std::string header = "{";
  try {
    if (!metadata.empty()) header += fmt::format("\"{}\":{}", kMetadata, nlohmann::json(metadata).dump());
    std::size_t offset = 0;
    for (const Leaf* leaf : order) {
      const Tensor& value = leaf->value;
      header += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                            header.size() > 1 ? "," : "", nlohmann::json(leaf->path).dump(), format_name(value.dtype()),
                            fmt::join(value.shape().begin(), value.shape().end(), ","), offset, offset + value.bytes());
      offset += value.bytes();
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::invalid_argument, "safetensors: a name or metadata is not UTF-8");
  }
  header += "}";
  const std::size_t end = (kPrefix + header.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  header.resize(end - kPrefix, ' ');
  const std::uint64_t size = header.size();
  if (size > kMaxHeader) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("safetensors: the header would have {} bytes, more than {}", size, kMaxHeader));
  }

  file.write(&size, kPrefix);
  file.write(header.data(), header.size());
  for (const Leaf* leaf : order) file.write(leaf->value.raw(), leaf->value.bytes());
}

}  // namespace giro
