#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace giro {

// Error(not_found, shape_mismatch or dtype_mismatch), in the call's name, for the first leaf of two trees that differs
// in path, shape, dtype or piece.
void expect_same_leaves(const char* call, const std::vector<Leaf>& expected, const std::vector<Leaf>& found);

std::vector<const Collection*> collections_of(const State& state, Collections which = Collections::all);

// What two trees must share so that one copy for each collection transfers one tree to the other.
struct Structure {
  explicit Structure(const std::vector<const Collection*>& collections);
  // The errors of expect_same_leaves, not_found for leaves in other collections, and shape_mismatch for collections
  // made for another number of shards.
  void expect_same(const char* call, const Structure& found) const;

  std::vector<std::string> collections;
  std::vector<std::size_t> bytes;  // of each
  std::vector<Leaf> leaves;
};

}  // namespace giro
