#pragma once

#include <giro/kernels/math_mode.h>

#include "kernels/op_cost.h"

namespace giro::ops {

// y = x w + b. Row-major; y aliases no input. Sums are computed in f32. A rule may replace x, only on the CPU and in
// layers that narrow_dense.h can run, by bytes to be multiplied by `factor`.
struct Dense {
  static constexpr const char* kName = "dense";
  static constexpr const char* kArguments = "x: s|u8(bi), w: s(io), b?: s|f32(o) -> y: s(bo)";
  Out y{};
  In x{}, w{}, b{};
  MathMode math = MathMode::f32;
  double factor = 1;

  double flops() const {
    return 2 * elements(x) * static_cast<double>(w.shape()[1]) + (b ? elements(y) : 0) + scaled_bytes(x);
  }
};

// dx = dz w^T, dw = x^T dz, db = the sum of dz's rows. x is only given if dw is wanted, w only if dx is. x may be
// bytes, as above.
struct DenseBackward {
  static constexpr const char* kName = "dense_backward";
  static constexpr const char* kArguments =
      "dz: s(bo), x?: s|u8(bi), w?: s(io) -> dx?: s(bi), dw?: s|f32(io), db?: s|f32(o)";
  Out dx{}, dw{}, db{};
  In dz{}, x{}, w{};
  MathMode math = MathMode::f32;
  double factor = 1;

  double flops() const {
    const double inputs = static_cast<double>(x ? x.shape()[1] : w ? w.shape()[0] : 0);
    return ((dx ? 2 : 0) + (dw ? 2 : 0)) * elements(dz) * inputs + (db ? elements(dz) : 0) + scaled_bytes(x);
  }
};

// Adds to dw, which is f32.
struct DenseBackwardAdd {
  static constexpr const char* kName = "dense_backward_add";
  static constexpr const char* kArguments = "dz: s(bo), x: s(bi) -> dw: f32(io), db?: s|f32(o)";
  InOut dw{};
  Out db{};
  In dz{}, x{};
  MathMode math = MathMode::f32;

  double flops() const {
    return 2 * elements(x) * static_cast<double>(dz.shape()[1]) + elements(dw) + (db ? elements(dz) : 0);
  }
};

}  // namespace giro::ops
