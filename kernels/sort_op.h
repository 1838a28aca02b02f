#pragma once

#include <cmath>

#include "kernels/op_cost.h"

namespace giro::ops {

// The order of each row: indices[r, i] is the position in x[r, :] of its i-th smallest element or, if descending, of
// its i-th largest one. Equal elements keep their order. NaN is larger than every number, -0 equals 0. Only the first k
// are written, which are no more than the row has.
struct ArgSort {
  static constexpr const char* kName = "argsort";
  static constexpr const char* kArguments = "x: *(r[l]) -> indices: i64(r[k])";
  Out indices{};
  In x{};
  bool descending = false;

  double flops() const { return elements(x) * std::log2(2 + elements(x)); }
};

}  // namespace giro::ops
