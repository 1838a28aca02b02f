#pragma once

#include <cstdint>

#include <giro/runtime/tensor.h>

namespace giro::detail {

// Whether two tensors share memory, or name parts of one value that overlap. An empty one, i.e. an omitted argument,
// shares none.
inline bool overlap(const Tensor& a, const Tensor& b) {
  if (!a || !b) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.place()),
             b_begin = reinterpret_cast<std::uintptr_t>(b.place());
  return a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

}  // namespace giro::detail
