#pragma once

#include "kernels/op_cost.h"

namespace giro::ops {

// Along rows: y[r, i] = the sum, product or maximum of x[r, 0] to x[r, i] or, if reversed, of x[r, i] to x[r, L - 1].
// Floats are computed in double and rounded once per element; integers wrap; a NaN is larger than every number. The
// order of operations depends on L alone, so repeated runs give the same bits.
struct Cumulative {
  enum class Of { sum, product, max };
  static constexpr const char* kName = "cumulative";
  static constexpr const char* kArguments = "x: n(r[l]) -> y: n(r[l])";
  Out y{};
  In x{};
  Of of = Of::sum;
  bool reversed = false;

  double flops() const { return elements(x); }
};

}  // namespace giro::ops
