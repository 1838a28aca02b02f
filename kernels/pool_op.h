#pragma once

#include <giro/kernels/pool.h>

#include "kernels/op_cost.h"

namespace giro::ops {

// Computed in f32; y does not alias x. A rule may apply the relu before it, if the windows tile x.
struct AvgPool {
  static constexpr const char* kName = "avg_pool";
  static constexpr const char* kArguments = "x: s(n[h][w]c) -> y: s(n[p][q]c)";
  Out y{};
  In x{};
  PoolOptions options{};
  bool has_relu = false;

  double flops() const { return (has_relu ? 2 : 1) * elements(x); }
};

// If the windows tile dx, rules may combine it with the gradient of the relu before it, for which x is the relu's input
// or output, and with the sum of dx over all pixels, db (C). dx may then be x.
struct AvgPoolBackward {
  static constexpr const char* kName = "avg_pool_backward";
  static constexpr const char* kArguments = "dy: s(n[p][q]c), x?: s(n[h][w]c) -> dx: s(n[h][w]c), db?: s|f32(c)";
  Out dx{}, db{};
  In dy{}, x{};
  PoolOptions options{};
  bool has_relu = false;

  double flops() const { return (1 + (has_relu ? 1 : 0) + (db ? 1 : 0)) * elements(dx); }
};

// A NaN counts as larger than every number.
struct MaxPool {
  static constexpr const char* kName = "max_pool";
  static constexpr const char* kArguments = "x: s(n[h][w]c) -> y: s(n[p][q]c)";
  Out y{};
  In x{};
  PoolOptions options{};

  double flops() const { return elements(x); }
};

// If several values of a window are the largest, the first in row-major order gets the gradient.
struct MaxPoolBackward {
  static constexpr const char* kName = "max_pool_backward";
  static constexpr const char* kArguments = "dy: s(n[p][q]c), x: s(n[h][w]c), y: s(n[p][q]c) -> dx: s(n[h][w]c)";
  Out dx{};
  In dy{}, x{}, y{};
  PoolOptions options{};

  double flops() const { return elements(dx); }
};

}  // namespace giro::ops
