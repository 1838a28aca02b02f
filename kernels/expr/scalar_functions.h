// The table of scalar functions, one per line (scalar_function.h). No include guard: nn/scalar_ops.cpp defines the
// functions from it, table.h declares them. A new op needs only a line here and a declaration in
// kernels/nn/elementwise.h.

GIRO_SCALAR_FUNCTION(add, 2, plus(a, b), {.takes = Takes::numbers, .gradients = {GIRO_GRADIENT(dy), GIRO_GRADIENT(dy)}})
GIRO_SCALAR_FUNCTION(subtract, 2, minus(a, b),
                     {.takes = Takes::numbers, .gradients = {GIRO_GRADIENT(dy), GIRO_GRADIENT(-dy)}})
GIRO_SCALAR_FUNCTION(multiply, 2, times(a, b),
                     {.takes = Takes::numbers, .gradients = {GIRO_GRADIENT(dy * b), GIRO_GRADIENT(dy* a)}})
GIRO_SCALAR_FUNCTION(divide, 2, a / b,
                     {.gradients = {GIRO_GRADIENT(dy / b), GIRO_GRADIENT(-dy* y / b)}, .domain = {{{-4, 4}, {0.5, 4}}}})
GIRO_SCALAR_FUNCTION(quotient, 2, quotient(a, b), {.takes = Takes::integers, .domain = {{{-90, 90}, {1, 9}}}})
GIRO_SCALAR_FUNCTION(remainder, 2, remainder(a, b), {.takes = Takes::integers, .domain = {{{-90, 90}, {1, 9}}}})
GIRO_SCALAR_FUNCTION(power, 2, pow(a, b),
                     {.gradients = {GIRO_GRADIENT(dy * slope_of_power(a, b)), GIRO_GRADIENT(dy* xlogy(y, a))},
                      .domain = {{{0.25, 4}, {-3, 3}}}})
GIRO_SCALAR_FUNCTION(negate, 1, negative(a),
                     {.takes = Takes::numbers, .gradients = {GIRO_GRADIENT(-dy)}, .is_exact = true})
GIRO_SCALAR_FUNCTION(
    abs, 1, abs(a),
    {.takes = Takes::numbers, .gradients = {GIRO_GRADIENT(dy * sign(a))}, .domain = {{{0.25, 4}}}, .is_exact = true})
GIRO_SCALAR_FUNCTION(sign, 1, sign(a), {.takes = Takes::numbers, .domain = {{{0.25, 4}}}, .is_exact = true})
GIRO_SCALAR_FUNCTION(square, 1, times(a, a), {.takes = Takes::numbers, .gradients = {GIRO_GRADIENT(dy * 2 * a)}})
GIRO_SCALAR_FUNCTION(sqrt, 1, sqrt(a), {.gradients = {GIRO_GRADIENT(dy / (2 * y))}, .domain = {{{0.25, 4}}}})
GIRO_SCALAR_FUNCTION(rsqrt, 1, T(1) / sqrt(a),
                     {.gradients = {GIRO_GRADIENT(dy * -0.5 * y / a)}, .domain = {{{0.25, 4}}}})
GIRO_SCALAR_FUNCTION(exp, 1, exp(a), {.gradients = {GIRO_GRADIENT(dy * y)}})
GIRO_SCALAR_FUNCTION(expm1, 1, expm1(a), {.gradients = {GIRO_GRADIENT(dy * (y + 1))}})
GIRO_SCALAR_FUNCTION(log, 1, log(a), {.gradients = {GIRO_GRADIENT(dy / a)}, .domain = {{{0.25, 4}}}})
GIRO_SCALAR_FUNCTION(xlogy, 2, a == T(0) ? T(0) : a * log(b),
                     {.gradients = {GIRO_GRADIENT(xlogy(dy, b)), GIRO_GRADIENT(dy* a / b)},
                      .domain = {{{-4, 4}, {0.25, 4}}}})
GIRO_SCALAR_FUNCTION(log1p, 1, log1p(a), {.gradients = {GIRO_GRADIENT(dy / (1 + a))}, .domain = {{{-0.75, 4}}}})
GIRO_SCALAR_FUNCTION(sin, 1, sin(a), {.gradients = {GIRO_GRADIENT(dy * cos(a))}})
GIRO_SCALAR_FUNCTION(cos, 1, cos(a), {.gradients = {GIRO_GRADIENT(-dy * sin(a))}})
GIRO_SCALAR_FUNCTION(tanh, 1, tanh(a), {.gradients = {GIRO_GRADIENT(dy * tanh_slope(y))}})
GIRO_SCALAR_FUNCTION(tanh_slope, 1, T(1) - a * a, {.gradients = {GIRO_GRADIENT(dy * -2 * a)}})
GIRO_SCALAR_FUNCTION(sigmoid, 1, T(1) / (T(1) + exp(-a)), {.gradients = {GIRO_GRADIENT(dy * sigmoid_slope(y))}})
GIRO_SCALAR_FUNCTION(sigmoid_slope, 1, a*(T(1) - a), {.gradients = {GIRO_GRADIENT(dy * (1 - 2 * a))}})
GIRO_SCALAR_FUNCTION(erf, 1, erf(a), {.gradients = {GIRO_GRADIENT(dy * 1.1283791670955126 * exp(-square(a)))}})
// Not a > 0 ? a : 0, which would turn a NaN into 0. The gradient is not a product, which would turn an infinite dy into
// a NaN where a <= 0.
GIRO_SCALAR_FUNCTION(relu, 1, a < T(0) ? T(0) : a,
                     {.gradients = {GIRO_GRADIENT(where(y > 0, dy, 0))}, .domain = {{{0.25, 4}}}, .is_exact = true})
GIRO_SCALAR_FUNCTION(softplus, 1, (a > T(0) ? a : T(0)) + log1p(exp(-abs(a))),
                     {.gradients = {GIRO_GRADIENT(dy * sigmoid(a))}})
GIRO_SCALAR_FUNCTION(silu, 1, a / (T(1) + exp(-a)), {.gradients = {GIRO_GRADIENT(dy * silu_slope(a))}})
GIRO_SCALAR_FUNCTION(silu_slope, 1, (T(1) + a * (T(1) - T(1) / (T(1) + exp(-a)))) / (T(1) + exp(-a)),
                     {.gradients = {GIRO_GRADIENT(dy * sigmoid_slope(sigmoid(a)) * (2 + a * (1 - 2 * sigmoid(a))))}})
// The tanh approximation of "Gaussian error linear units (GELUs)", Hendrycks and Gimpel, 2016; gelu_erf is exact.
GIRO_SCALAR_FUNCTION(gelu, 1, T(0.5) * a * (T(1) + tanh(T(0.7978845608028654) * (a + T(0.044715) * a * a * a))),
                     {.gradients = {GIRO_GRADIENT(dy * gelu_slope(a))}})
GIRO_SCALAR_FUNCTION(gelu_slope, 1,
                     T(0.5) * (T(1) + tanh(T(0.7978845608028654) * (a + T(0.044715) * a * a * a))) +
                         T(0.5) * a *
                             (T(1) - tanh(T(0.7978845608028654) * (a + T(0.044715) * a * a * a)) *
                                         tanh(T(0.7978845608028654) * (a + T(0.044715) * a * a * a))) *
                             (T(0.7978845608028654) * (T(1) + T(0.134145) * a * a)),
                     {.gradients = {GIRO_GRADIENT(dy * curvature_of_gelu(a))}})
GIRO_SCALAR_FUNCTION(gelu_erf, 1, T(0.5) * a * (T(1) + erf(a * T(0.7071067811865476))),
                     {.gradients = {GIRO_GRADIENT(dy * gelu_erf_slope(a))}})
GIRO_SCALAR_FUNCTION(gelu_erf_slope, 1,
                     T(0.5) * (T(1) + erf(a * T(0.7071067811865476))) +
                         a * T(0.3989422804014327) * exp(T(-0.5) * a * a),
                     {.gradients = {GIRO_GRADIENT(dy * 0.3989422804014327 * exp(-0.5 * square(a)) * (2 - square(a)))}})
GIRO_SCALAR_FUNCTION(maximum, 2, maximum(a, b),
                     {.takes = Takes::numbers,
                      .gradients = {GIRO_GRADIENT(dy * share_of(a, y, b)), GIRO_GRADIENT(dy* share_of(b, y, a))},
                      .domain = {{{-4, -0.5}, {0.5, 4}}},
                      .is_exact = true})
GIRO_SCALAR_FUNCTION(minimum, 2, minimum(a, b),
                     {.takes = Takes::numbers,
                      .gradients = {GIRO_GRADIENT(dy * share_of(a, y, b)), GIRO_GRADIENT(dy* share_of(b, y, a))},
                      .domain = {{{-4, -0.5}, {0.5, 4}}},
                      .is_exact = true})
// The share of the gradient that goes to a, where b was chosen between a and c: 1/2 if both equal b, 1 if a is NaN.
GIRO_SCALAR_FUNCTION(share_of, 3, a == b ? (a == c ? T(0.5) : T(1)) : T(a != a ? 1 : 0),
                     {.takes = Takes::floating, .domain = {{{-4, -1}, {1, 4}, {5, 6}}}, .is_exact = true})
GIRO_SCALAR_FUNCTION(equal, 2, a == b, {.takes = Takes::any, .gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(not_equal, 2, a != b, {.takes = Takes::any, .gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(less, 2, a < b, {.takes = Takes::any, .gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(less_equal, 2, a <= b, {.takes = Takes::any, .gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(greater, 2, a > b, {.takes = Takes::any, .gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(greater_equal, 2, a >= b, {.takes = Takes::any, .gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(is_finite, 1, isfinite(a), {.gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(is_nan, 1, a != a, {.gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(logical_and, 2, a&& b, {.takes = Takes::boolean, .gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(logical_or, 2, a || b, {.takes = Takes::boolean, .gives = Gives::boolean, .is_exact = true})
GIRO_SCALAR_FUNCTION(logical_not, 1, !a, {.takes = Takes::boolean, .gives = Gives::boolean, .is_exact = true})
// Random numbers from a key and an element's index (random_by_key.h).
GIRO_SCALAR_FUNCTION(key_by_key, 2, key_by_key(a, b), {.takes = Takes::i64, .is_exact = true})
GIRO_SCALAR_FUNCTION(uniform_by_key, 2, uniform_by_key(a, b),
                     {.takes = Takes::i64, .gives = Gives::f32, .is_exact = true})
GIRO_SCALAR_FUNCTION(normal_by_key, 2, normal_by_key(a, b), {.takes = Takes::i64, .gives = Gives::f32})
// The number that ops::digest sums, for the word at a position.
GIRO_SCALAR_FUNCTION(digest_term, 2,
                     [](u64 z) {
                       z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
                       z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
                       return i64(z ^ (z >> 31));
                     }(u64(a) + (u64(b) + 1) * 0x9E3779B97F4A7C15u),
                     {.takes = Takes::i64, .is_exact = true})
GIRO_SCALAR_FUNCTION(where, 3, a ? b : c,
                     {.takes = Takes::select,
                      .gradients = {nullptr, GIRO_GRADIENT(where(a, dy, 0)), GIRO_GRADIENT(where(a, 0, dy))},
                      .is_exact = true})
