#pragma once

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// Elementwise functions. Shapes broadcast as in NumPy: from the last axis on, sizes are equal or one of them is 1.
// Values of different dtypes are converted to the wider one: f32 is wider than bf16 and f16, which together give f32;
// every floating dtype is wider than integers and booleans. Arithmetic converts booleans to i32; functions with
// fractional results convert integers to f32. bf16 and f16 are computed in f32 and rounded once. NaN and infinities
// follow IEEE 754.
// Errors: shape_mismatch for shapes that do not broadcast, which names both and the axis; dtype_mismatch for a dtype
// that a function does not take; invalid_argument if all operands are numbers.

Var add(const Operand& a, const Operand& b);
Var subtract(const Operand& a, const Operand& b);
Var multiply(const Operand& a, const Operand& b);
Var divide(const Operand& a, const Operand& b);     // integers give f32
Var quotient(const Operand& a, const Operand& b);   // of integers, truncated toward zero; 0 if b is 0
Var remainder(const Operand& a, const Operand& b);  // of integers, with the sign of a; 0 if b is 0
Var power(const Operand& a, const Operand& b);
Var negate(const Operand& a);
Var abs(const Operand& a);
Var sign(const Operand& a);  // -1, 0, 1 or NaN
Var square(const Operand& a);
Var sqrt(const Operand& a);
Var rsqrt(const Operand& a);  // 1 / sqrt(a)
Var exp(const Operand& a);
Var expm1(const Operand& a);  // exp(a) - 1, accurate near 0
Var log(const Operand& a);
Var log1p(const Operand& a);                    // log(1 + a), accurate near 0
Var xlogy(const Operand& a, const Operand& b);  // a log(b), 0 where a is 0
Var sin(const Operand& a);
Var cos(const Operand& a);
Var tanh(const Operand& a);
Var sigmoid(const Operand& a);  // 1 / (1 + exp(-a))
Var erf(const Operand& a);
Var relu(const Operand& a);      // max(a, 0)
Var softplus(const Operand& a);  // log(1 + exp(a))
Var silu(const Operand& a);      // a sigmoid(a)
Var gelu(const Operand& a);      // tanh approximation: a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2
Var gelu_erf(const Operand& a);  // exact: a (1 + erf(a / sqrt(2))) / 2
// NaN if either operand is. Equal operands each get half of the gradient.
Var maximum(const Operand& a, const Operand& b);
Var minimum(const Operand& a, const Operand& b);
Var clamp(const Operand& a, const Operand& lowest, const Operand& highest);
Var is_finite(const Operand& a);
Var is_nan(const Operand& a);
Var equal(const Operand& a, const Operand& b);
Var not_equal(const Operand& a, const Operand& b);
Var less(const Operand& a, const Operand& b);
Var less_equal(const Operand& a, const Operand& b);
Var greater(const Operand& a, const Operand& b);
Var greater_equal(const Operand& a, const Operand& b);
Var logical_and(const Operand& a, const Operand& b);  // of booleans
Var logical_or(const Operand& a, const Operand& b);
Var logical_not(const Operand& a);
// a where the boolean condition holds, else b.
Var where(const Operand& condition, const Operand& a, const Operand& b);

// At least one operand is a Var.
inline Var operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Var operator-(const Operand& a, const Operand& b) { return subtract(a, b); }
inline Var operator*(const Operand& a, const Operand& b) { return multiply(a, b); }
inline Var operator/(const Operand& a, const Operand& b) { return divide(a, b); }
inline Var operator-(const Operand& a) { return negate(a); }
inline Var operator==(const Operand& a, const Operand& b) { return equal(a, b); }
inline Var operator!=(const Operand& a, const Operand& b) { return not_equal(a, b); }
inline Var operator<(const Operand& a, const Operand& b) { return less(a, b); }
inline Var operator<=(const Operand& a, const Operand& b) { return less_equal(a, b); }
inline Var operator>(const Operand& a, const Operand& b) { return greater(a, b); }
inline Var operator>=(const Operand& a, const Operand& b) { return greater_equal(a, b); }

// x repeated to a larger shape.
Var broadcast_to(const Operand& x, const Shape& shape);
// Axis i of the result is axis axes[i] of x; a negative one counts from the end. Without axes, their order is reversed.
Var transpose(const Operand& x, const std::vector<int>& axes = {});
// x reversed along these axes.
Var flip(const Operand& x, const std::vector<int>& axes);

}  // namespace giro::nn
