#pragma once

#include <source_location>
#include <utility>
#include <vector>

#include <giro/kernels/activation.h>
#include <giro/kernels/conv2d.h>
#include <giro/kernels/nn/var.h>
#include <giro/kernels/pool.h>

namespace giro::nn {

// The ops of kernels/ on Vars: same mathematics, output allocated, gradient known. Errors are those of the ops, when
// the call is made. Errors name the line of the call, `where`, and so does the program that a recording makes of it.
using Where = std::source_location;

// A first argument with the line that it stands on, for what has no room for a default argument: operators.
struct Operand {
  Operand(Var value, Where line = Where::current()) : var(std::move(value)), where(line) {}
  Operand(const Tensor& value, Where line = Where::current()) : var(value), where(line) {}
  Var var;
  Where where;
};

// Converted to a floating dtype, as the gradient is to x's; x itself if it is of that dtype.
Var cast(const Var& x, DType dtype, Where where = Where::current());

// Elementwise; floating, of one shape and dtype; or of f32 and 16 bits, of which f32 comes out.
Var add(const Var& a, const Var& b, Where where = Where::current());
Var add(const Var& x, double constant, Where where = Where::current());
Var subtract(const Var& a, const Var& b, Where where = Where::current());
Var multiply(const Var& a, const Var& b, Where where = Where::current());
Var square(const Var& x, Where where = Where::current());
// factor * x in x's dtype if that is bf16 or f16, else as f32; the gradient reaches x if x is f32, bf16 or f16.
Var scale(const Var& x, double factor, Where where = Where::current());
Var activation(const Var& x, Activation f, Where where = Where::current());
Var relu(const Var& x, Where where = Where::current());
Var gelu(const Var& x, Where where = Where::current());
Var tanh(const Var& x, Where where = Where::current());
Var sigmoid(const Var& x, Where where = Where::current());
// (N, ...) -> (N, product of the rest).
Var flatten(const Var& x, Where where = Where::current());
// Layers compute in the dtype of their weights w, to which a floating x is converted. f(x w + b); x (B, I), w (I, O),
// b (O).
Var dense(const Var& x, const Var& w, const Var& b, Activation f = Activation::none, Where where = Where::current());
// x (N, H, W, C), w (O, KH, KW, C), b (O).
Var conv2d(const Var& x, const Var& w, const Var& b, const Conv2dOptions& options, Activation f = Activation::none,
           Where where = Where::current());
Var avg_pool(const Var& x, const PoolOptions& options, Where where = Where::current());
Var max_pool(const Var& x, const PoolOptions& options, Where where = Where::current());

// Over all elements, into a scalar, f32. These and what follows take bf16 and f16, too, and compute in f32.
Var sum(const Var& x, Where where = Where::current());
Var mean(const Var& x, Where where = Where::current());
// Of scalars, one or more.
Var mean(const std::vector<Var>& scalars, Where where = Where::current());
// Losses (R,) of logits (R, C) at integer labels (R,).
Var softmax_cross_entropy(const Var& logits, const Var& labels, Where where = Where::current());
// The share of rows whose largest logit stands at the label, a scalar; not differentiated.
Var accuracy(const Operand& logits, const Var& labels);  // with a mask it is a metric (metrics.h)

inline Var operator+(const Operand& a, const Var& b) { return add(a.var, b, a.where); }
inline Var operator+(const Operand& a, double b) { return add(a.var, b, a.where); }
inline Var operator+(double a, const Operand& b) { return add(b.var, a, b.where); }
inline Var operator-(const Operand& a, const Var& b) { return subtract(a.var, b, a.where); }
inline Var operator-(const Operand& a, double b) { return add(a.var, -b, a.where); }
inline Var operator-(double a, const Operand& b) { return add(scale(b.var, -1.0, b.where), a, b.where); }
inline Var operator-(const Operand& a) { return scale(a.var, -1.0, a.where); }
inline Var operator*(const Operand& a, const Var& b) { return multiply(a.var, b, a.where); }
inline Var operator*(const Operand& a, double b) { return scale(a.var, b, a.where); }
inline Var operator*(double a, const Operand& b) { return scale(b.var, a, b.where); }

}  // namespace giro::nn
