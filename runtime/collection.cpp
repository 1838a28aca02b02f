#include <fmt/format.h>

#include <cstdint>
#include <string>

#include <giro/runtime/error.h>
#include <giro/runtime/state.h>

#include "runtime/throw_error.h"

namespace giro {

std::string Collection::path_of(const LeafSpec& leaf) const {
  return leaf.name.empty() ? name_ : fmt::format("{}/{}", name_, leaf.name);
}

Tensor Collection::flat() const {
  const DType dtype = specs_.empty() ? DType::u8 : specs_.front().dtype;
  for (const LeafSpec& leaf : specs_) {
    if (leaf.dtype == dtype) continue;
    throw_error(ErrorCode::dtype_mismatch, "collection '{}' does not have a single dtype: '{}' is {}, '{}' is {}",
                name_, path_of(specs_.front()), name_of(dtype), path_of(leaf), name_of(leaf.dtype));
  }
  const auto count = static_cast<std::int64_t>(buffer_->size() / size_of(dtype));
  return Tensor::of_leaf(buffer_, buffer_->data(), dtype, {count});
}

Tensor Collection::flat(const Shard& shard) const {
  const Tensor all = flat();
  if (is_sharded() || shard.count != options_.parts || shard.index < 0 || shard.index >= shard.count) {
    throw_invalid(
        "collection '{}' consists of {} parts{}, found shard {} of {}; to lay one out like another, add it with the "
        "other's specs() and options()",
        name_, options_.parts, is_sharded() ? ", one of which is here" : "", shard.index, shard.count);
  }
  const std::int64_t each = all.count() / shard.count;
  return all.rows(shard.index * each, (shard.index + 1) * each);
}

Tensor Collection::bytes() const {
  return Tensor::of_leaf(buffer_, buffer_->data(), DType::u8, {static_cast<std::int64_t>(buffer_->size())});
}

}  // namespace giro
