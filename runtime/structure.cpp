#include "runtime/structure.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/throw_error.h"

namespace giro {
namespace {

// For a piece: ", starting at element 96 of (784, 128)".
std::string place_of(const Leaf& leaf) {
  return leaf.piece ? fmt::format(", starting at element {} of {}", leaf.piece->begin, to_string(leaf.piece->whole))
                    : "";
}

}  // namespace

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
