#include <giro/kernels/nn/elementwise.h>

#include "kernels/expr/table.h"
#include "kernels/expr/term.h"
#include "kernels/nn/apply.h"

namespace giro::nn {

// Only for gradients, kernels/nn/random.cpp and kernels/elementwise.cpp.
Var key_by_key(const Operand& key, const Operand& i);
Var uniform_by_key(const Operand& key, const Operand& i);
Var normal_by_key(const Operand& key, const Operand& i);
Var digest_term(const Operand& word, const Operand& position);
Var tanh_slope(const Operand& y);
Var sigmoid_slope(const Operand& y);
Var silu_slope(const Operand& a);
Var gelu_slope(const Operand& a);
Var gelu_erf_slope(const Operand& a);
Var share_of(const Operand& a, const Operand& y, const Operand& other);

namespace {

// b a^(b - 1), or 0 if b is 0.
Var slope_of_power(const Operand& a, const Operand& b) {
  if (!b.is_number) return where(b == 0, 0, b * power(a, b - 1));
  return b.number == 0 ? sign(a) * 0 : b.number * power(a, b.number - 1);
}

Var curvature_of_gelu(const Operand& a) {
  constexpr double kA = 0.7978845608028654, kB = 0.044715;
  const Var squared = square(a), t = tanh(kA * a * (1 + kB * squared));
  const Var inner = kA * (1 + 3 * kB * squared);
  return (1 - square(t)) * (inner + 0.5 * a * (6 * kA * kB * a - 2 * t * square(inner)));
}

}  // namespace
}  // namespace giro::nn

#include "kernels/expr/scalar_functions.h"

namespace giro::nn {

#undef GIRO_SCALAR_FUNCTION
#define GIRO_SCALAR_FUNCTION(NAME, INPUTS, ...) GIRO_OP_OF_##INPUTS(NAME)
#define GIRO_OP_OF_1(NAME) \
  Var NAME(const Operand& a) { return apply(expr::functions::NAME, {a}); }
#define GIRO_OP_OF_2(NAME) \
  Var NAME(const Operand& a, const Operand& b) { return apply(expr::functions::NAME, {a, b}); }
#define GIRO_OP_OF_3(NAME) \
  Var NAME(const Operand& a, const Operand& b, const Operand& c) { return apply(expr::functions::NAME, {a, b, c}); }
#include "kernels/expr/scalar_functions.h"

}  // namespace giro::nn
