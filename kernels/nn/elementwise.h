#pragma once

#include <giro/kernels/nn/operand.h>
#include <giro/runtime/dtype.h>

namespace giro::nn {

// Functions of one element each, of values whose shapes broadcast as NumPy's do: from the last axis on, sizes are equal
// or one of them is 1. Values of different dtypes become the wider of the two: f32 beside bf16 or f16, and beside any
// integer or boolean; arithmetic makes i32 of booleans; functions that give fractions make f32 of integers. What they
// compute of bf16 and f16 they compute in f32, and round once. NaN and infinities go through them as IEEE 754 says.
// Errors: shape_mismatch for shapes that do not broadcast, which names both and the axis; dtype_mismatch for a dtype
// that a function does not take; invalid_argument for numbers alone.

Var add(const Operand& a, const Operand& b);
Var subtract(const Operand& a, const Operand& b);
Var multiply(const Operand& a, const Operand& b);
Var divide(const Operand& a, const Operand& b);     // of integers: f32
Var quotient(const Operand& a, const Operand& b);   // of integers, toward zero; by zero it is 0
Var remainder(const Operand& a, const Operand& b);  // of integers, with the sign of a; by zero it is 0
Var power(const Operand& a, const Operand& b);
Var negate(const Operand& a);
Var abs(const Operand& a);
Var sign(const Operand& a);  // -1, 0, 1 or NaN
Var square(const Operand& a);
Var sqrt(const Operand& a);
Var rsqrt(const Operand& a);  // 1 / sqrt(a)
Var exp(const Operand& a);
Var expm1(const Operand& a);  // exp(a) - 1, also near 0
Var log(const Operand& a);
Var log1p(const Operand& a);                    // log(1 + a), also near 0
Var xlogy(const Operand& a, const Operand& b);  // a log(b), and 0 where a is 0
Var sin(const Operand& a);
Var cos(const Operand& a);
Var tanh(const Operand& a);
Var sigmoid(const Operand& a);  // 1 / (1 + exp(-a))
Var erf(const Operand& a);
Var relu(const Operand& a);      // max(a, 0)
Var softplus(const Operand& a);  // log(1 + exp(a))
Var silu(const Operand& a);      // a sigmoid(a)
Var gelu(const Operand& a);      // by tanh: a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2
Var gelu_erf(const Operand& a);  // as it is defined: a (1 + erf(a / sqrt(2))) / 2
// NaN if one of them is. Of two that are equal each has half of the gradient.
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
// a where the condition, a boolean, holds, else b.
Var where(const Operand& condition, const Operand& a, const Operand& b);

// With a Var on one side at least.
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

// The same value for each of a larger shape.
Var broadcast_to(const Operand& x, const Shape& shape);
// Axis i of the result is axis axes[i] of x; a negative one counts from the end. Without axes they are reversed.
Var transpose(const Operand& x, const std::vector<int>& axes = {});
// Backwards along these axes.
Var flip(const Operand& x, const std::vector<int>& axes);

}  // namespace giro::nn
