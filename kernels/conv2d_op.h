#pragma once

#include <giro/kernels/conv2d.h>
#include <giro/kernels/math_mode.h>

#include "kernels/op_cost.h"

namespace giro::ops {

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

}  // namespace giro::ops
