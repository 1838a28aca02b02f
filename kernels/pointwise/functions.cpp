#include <giro/kernels/nn/elementwise.h>

#include "kernels/pointwise/build.h"
#include "kernels/pointwise/scalar_function.h"
#include "kernels/pointwise/table.h"

namespace giro::nn {
namespace {

// The other choice than `y` is told from what is chosen: see maximum.
Var share_of(const Operand& a, const Var& y, const Operand& other) {
  return apply(pointwise::functions::share_of, {a, y, other});
}

Var power_less_one(const Operand& a, const Operand& b) { return apply(pointwise::functions::power_less_one, {a, b}); }

Var slope_of_gelu(const Operand& a) {
  constexpr double kA = 0.7978845608028654, kB = 0.044715;
  const Var squared = square(a), t = tanh(kA * a * (1 + kB * squared));
  return 0.5 * (1 + t) + 0.5 * a * (1 - square(t)) * (kA * (1 + 3 * kB * squared));
}

Var slope_of_gelu_erf(const Operand& a) {
  return 0.5 * (1 + erf(a * 0.7071067811865476)) + a * 0.3989422804014327 * exp(-0.5 * square(a));
}

}  // namespace
}  // namespace giro::nn

#include "kernels/pointwise/functions.h"
