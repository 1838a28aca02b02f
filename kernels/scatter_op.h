#pragma once

#include <cstdint>

#include "kernels/op_cost.h"

namespace giro::ops {

// The dtype of sums of updates: f32 for bf16 and f16, i64 for integers, else the same.
constexpr DType dtype_of_sums(DType updates) {
  if (is_16_bit(updates)) return DType::f32;
  return is_floating(updates) ? updates : DType::i64;
}

// sums[n, ...] is the sum of all updates[r, ...] with indices[r] == n, or 0 if there are none; an index outside [0, N)
// is ignored. `order` is the argsort of the indices, or empty if no index occurs twice. The updates are added by index,
// in an order that depends on the indices alone, so repeated runs give the same bits.
struct ScatterAdd {
  static constexpr const char* kName = "scatter_add";
  static constexpr const char* kArguments =
      "updates: s|f64|i64(r...), indices: i(r), order?: i64(r) -> sums: f32|f64|i64([n]...)";
  Out sums{};
  In updates{}, indices{}, order{};

  double flops() const { return elements(updates); }
  std::int64_t bytes() const { return bytes_of(sums) + 2 * bytes_of(updates) + bytes_of(indices) + bytes_of(order); }
};

}  // namespace giro::ops
