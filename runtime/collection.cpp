#include "runtime/collection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "runtime/throw_error.h"

namespace giro {
namespace {

// For a piece: ", starting at element 96 of (784, 128)".
std::string place_of(const Leaf& leaf) {
  return leaf.piece ? fmt::format(", starting at element {} of {}", leaf.piece->begin, to_string(leaf.piece->whole))
                    : "";
}

}  // namespace

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

void expect_same_leaves(const char* call, const std::vector<Leaf>& expected, const std::vector<Leaf>& found) {
  for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i) {
    if (i >= expected.size() || i >= found.size() || expected[i].path != found[i].path) {
      throw_error(ErrorCode::not_found, "{}: leaf {} is '{}', expected '{}'", call, i,
                  i < found.size() ? found[i].path : "missing",
                  i < expected.size() ? expected[i].path : "no more leaves");
    }
    const Tensor &wanted = expected[i].value, &given = found[i].value;
    const bool same_place = expected[i].piece == found[i].piece;
    if (wanted.shape() == given.shape() && wanted.dtype() == given.dtype() && same_place) continue;
    throw_error(wanted.dtype() != given.dtype() ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
                "{}: leaf '{}' is {}{}, expected {}{}", call, found[i].path, to_string(given), place_of(found[i]),
                to_string(wanted), place_of(expected[i]));
  }
}

std::vector<const Collection*> collections_of(const State& state, Collections which) {
  std::vector<const Collection*> chosen;
  for (const auto& collection : state.collections()) {
    if (which != Collections::all && !collection->saved()) continue;
    if (which == Collections::saved_shards && !collection->is_sharded()) continue;
    chosen.push_back(collection.get());
  }
  return chosen;
}

Structure::Structure(const std::vector<const Collection*>& all) {
  for (const Collection* collection : all) {
    collections.push_back(collection->name());
    bytes.push_back(collection->bytes().bytes());
    leaves.insert(leaves.end(), collection->leaves().begin(), collection->leaves().end());
  }
}

void Structure::expect_same(const char* call, const Structure& found) const {
  expect_same_leaves(call, leaves, found.leaves);
  for (std::size_t i = 0; i < std::max(collections.size(), found.collections.size()); ++i) {
    const std::string wanted = i < collections.size() ? collections[i] : "no more collections";
    const std::string given = i < found.collections.size() ? found.collections[i] : "missing";
    if (wanted != given) {
      throw_error(ErrorCode::not_found, "{}: collection {} is '{}', expected '{}'", call, i, given, wanted);
    }
    if (bytes[i] != found.bytes[i]) {
      throw_error(ErrorCode::shape_mismatch,
                  "{}: the collection '{}' has {} bytes, expected {}; it was made for a different number of shards",
                  call, given, found.bytes[i], bytes[i]);
    }
  }
}

}  // namespace giro
