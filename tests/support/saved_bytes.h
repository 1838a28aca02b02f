#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <giro/runtime/state.h>

namespace giro::test {

// The bytes of all collections that a checkpoint contains, by name.
inline std::map<std::string, std::vector<std::uint8_t>> saved_bytes(const State& state) {
  std::map<std::string, std::vector<std::uint8_t>> bytes;
  for (const auto& collection : state.collections()) {
    if (collection->saved()) bytes[collection->name()] = to_host<std::uint8_t>(collection->bytes(), state.stream());
  }
  return bytes;
}

// The bytes of all leaves, by path.
inline std::map<std::string, std::vector<std::uint8_t>> leaf_bytes(const State& state) {
  std::map<std::string, std::vector<std::uint8_t>> bytes;
  for (const Leaf& leaf : state.flatten()) {
    std::vector<std::uint8_t>& of_leaf = bytes[leaf.path];
    of_leaf.resize(leaf.value.bytes());
    state.stream().copy(of_leaf.data(), leaf.value.raw(), of_leaf.size());
  }
  state.stream().synchronize();
  return bytes;
}

}  // namespace giro::test
