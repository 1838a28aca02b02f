#pragma once

#include <cstdint>

#include <giro/runtime/tensor.h>

namespace giro::detail {

// Whether two tensors have memory in common. An empty one, as of an argument that is not there, has none.
inline bool overlap(const Tensor& a, const Tensor& b) {
  if (!a || !b) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.raw()), b_begin = reinterpret_cast<std::uintptr_t>(b.raw());
  return a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

}  // namespace giro::detail
