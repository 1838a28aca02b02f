#include <giro/kernels/elementwise.h>

#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// Integers that are scaled to f32, which one conversion to 16 bits alone reads, become 16 bits at once: the images of a
// model in 16 bits.
bool scale_to_dtype(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const scale = GIRO_ARGUMENTS(ops[i], scale);
  if (scale == nullptr) return false;
  const auto [floats, from, factor] = *scale;
  if (floats.dtype() != DType::f32 || is_floating(from.dtype())) return false;
  const auto reader = ops.only_reader(i, floats);
  const auto* const cast = reader ? GIRO_ARGUMENTS(ops[*reader], cast) : nullptr;
  if (cast == nullptr || !same(std::get<1>(*cast), floats)) return false;
  const Tensor out = std::get<0>(*cast);
  if ((out.dtype() != DType::bf16 && out.dtype() != DType::f16) || !ops.can_run_late(i, *reader)) return false;
  giro::scale(out, from.reshape(out.shape()), factor, stream);
  ops.replace(*reader, {i});
  return true;
}

}  // namespace giro::rewrite
