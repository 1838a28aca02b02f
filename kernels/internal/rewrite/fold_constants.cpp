#include <giro/kernels/elementwise.h>

#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// A constant that is spread over an array, or that weighs rows, is known before the program runs: so is the gradient of
// a mean.
bool fold_constants(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const fill = GIRO_ARGUMENTS(ops[i], fill);
  if (fill == nullptr) return false;
  const auto [constant, value] = *fill;
  const auto reader = ops.only_reader(i, constant);
  if (!reader || constant.dtype() != DType::f32 || !ops.can_run_late(i, *reader)) return false;
  if (const auto* const broadcast = GIRO_ARGUMENTS(ops[*reader], broadcast)) {
    const auto [out, scalar, factor] = *broadcast;
    if (!same(scalar, constant)) return false;
    const float product = static_cast<float>(factor) * static_cast<float>(value);
    giro::fill(out, product, stream);
    ops.replace(*reader, {i});
    return true;
  }
  if (const auto* const scale = GIRO_ARGUMENTS(ops[*reader], scale_rows)) {
    const auto [out, a, factors] = *scale;
    if (!same(factors, constant) || a.raw() == constant.raw()) return false;
    giro::scale(out, a, static_cast<float>(value), stream);
    ops.replace(*reader, {i});
    return true;
  }
  return false;
}

}  // namespace giro::rewrite
