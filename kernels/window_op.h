#pragma once

#include <giro/kernels/conv2d.h>
#include <giro/kernels/math_mode.h>
#include <giro/kernels/pool.h>

#include "kernels/op_cost.h"

namespace giro::ops {

// Ops on the windows of images.

// Cross-correlation over images, commonly called convolution. Sums are computed in f32. Outputs alias no input.
struct Conv2d {
  static constexpr const char* kName = "conv2d";
  static constexpr const char* kArguments =
      "x: s(n[h][w](gc)), w: s((go)[k][l]c), b?: s|f32((go)) -> y: s(n[p][q](go))";
  Out y{};
  In x{}, w{}, b{};
  Conv2dOptions options{};
  MathMode math = MathMode::f32;
  // Set by rules, only on a GPU. has_pool: after a relu, y holds the means of 2 x 2 windows, which tile the result; for
  // few channels (few_channels.h). Without it, has_relu needs a b of y's dtype.
  bool has_relu = false, has_pool = false;

  double flops() const {
    const double each = 2 * static_cast<double>(w.count() / w.shape()[0]) + (b ? 1 : 0) + (has_relu ? 1 : 0);
    return (has_pool ? 4 * (each + 1) : each) * elements(y);
  }
};

// x is only given if dw is wanted, w only if dx is. If a rule has set has_pool, dz is the gradient of the means above.
// Then w and b are given, to compute the relu's input again, and dx is empty.
struct Conv2dBackward {
  static constexpr const char* kName = "conv2d_backward";
  static constexpr const char* kArguments =
      "dz: s(n[p][q](go)), x?: s(n[h][w](gc)), w?: s((go)[k][l]c), b?: s|f32((go)) -> "
      "dx?: s(n[h][w](gc)), dw?: s|f32((go)[k][l]c), db?: s|f32((go))";
  Out dx{}, dw{}, db{};
  In dz{}, x{}, w{}, b{};
  Conv2dOptions options{};
  MathMode math = MathMode::f32;
  bool has_pool = false;

  Shape x_shape() const { return x ? x.shape() : dx.shape(); }
  Shape w_shape() const { return w ? w.shape() : dw.shape(); }
  double flops() const {
    const double terms = dx || dw ? static_cast<double>(w_shape().count() / w_shape()[0]) : 0;
    const double each = ((dx ? 2 : 0) + (dw ? 2 : 0) + (has_pool ? 2 : 0)) * terms + (db ? 1 : 0);
    return (has_pool ? 4 : 1) * each * elements(dz);
  }
};

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
