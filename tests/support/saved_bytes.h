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

}  // namespace giro::test
