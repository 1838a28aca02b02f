#pragma once

#include <giro/runtime/tensor.h>

namespace giro::detail {

// Whether two tensors have memory in common.
inline bool overlap(const Tensor& a, const Tensor& b) {
  const auto* const a_begin = static_cast<const char*>(a.raw());
  const auto* const b_begin = static_cast<const char*>(b.raw());
  return a_begin < b_begin + b.bytes() && b_begin < a_begin + a.bytes();
}

}  // namespace giro::detail
