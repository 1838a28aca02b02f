#pragma once

#include "kernels/op_cost.h"

namespace giro::ops {

struct SumRows {
  static constexpr const char* kName = "sum_rows";
  static constexpr const char* kArguments = "x: s(rc) -> out: s|f32(c)";
  Out out{};
  In x{};

  double flops() const { return elements(x); }
};

}  // namespace giro::ops
