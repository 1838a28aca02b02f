#pragma once

#include <vector>

#include <giro/kernels/math_mode.h>
#include <giro/kernels/matmul.h>

#include "kernels/op_cost.h"

namespace giro::ops {

// out = a b, row-major, where leading axes broadcast. Both operands have at least two axes. Sums are computed in f32.
// If the summed axis is empty, the product is 0.
struct Matmul {
  static constexpr const char* kName = "matmul";
  Out out{};
  In a{}, b{};
  MatmulOptions options{};
  MathMode math = MathMode::f32;

  const detail::OpSignature& arguments() const {
    static const detail::OpSignature of[]{
        detail::OpSignature("a: s(...mk), b: s(...kn) -> out: s|f32(...mn)"),
        detail::OpSignature("a: s(...mk), b: s(...nk) -> out: s|f32(...mn)"),
        detail::OpSignature("a: s(...km), b: s(...kn) -> out: s|f32(...mn)"),
        detail::OpSignature("a: s(...km), b: s(...nk) -> out: s|f32(...mn)"),
    };
    return of[2 * options.transpose_a + options.transpose_b];
  }
  double flops() const { return 2 * elements(out) * static_cast<double>(a.shape()[options.transpose_a ? -2 : -1]); }
};

// Products of contiguous matrices: out (B, M, N); a and b have B matrices each, or one for all products.
struct StridedBatch {
  Tensor out, a, b;
};

// Splits the op into batches that the libraries accept; several if a and b broadcast along different axes.
std::vector<StridedBatch> strided_batches(const Matmul& op);

}  // namespace giro::ops
