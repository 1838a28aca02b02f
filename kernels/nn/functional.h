#pragma once

#include <vector>

#include <giro/kernels/activation.h>
#include <giro/kernels/conv2d.h>
#include <giro/kernels/nn/var.h>
#include <giro/kernels/pool.h>

namespace giro::nn {

// The ops of kernels/ on Vars: same mathematics, output allocated, gradient known. Errors are those of the ops, when
// the call is made.

// Converted to a floating dtype, and so is the gradient on its way back; x itself if it is of that dtype.
Var cast(const Var& x, DType dtype);

// Elementwise; floating, of one shape and dtype; or of f32 and 16 bits, of which f32 comes out.
Var add(const Var& a, const Var& b);
Var add(const Var& x, double constant);
Var subtract(const Var& a, const Var& b);
Var multiply(const Var& a, const Var& b);
Var square(const Var& x);
// factor * x in x's dtype if that is bf16 or f16, else as f32; the gradient reaches x if x is f32, bf16 or f16.
Var scale(const Var& x, double factor);
Var activation(const Var& x, Activation f);
Var relu(const Var& x);
Var gelu(const Var& x);
Var tanh(const Var& x);
Var sigmoid(const Var& x);
// (N, ...) -> (N, product of the rest).
Var flatten(const Var& x);
// Layers compute in the dtype of their weights w, to which a floating x is converted. f(x w + b); x (B, I), w (I, O),
// b (O).
Var dense(const Var& x, const Var& w, const Var& b, Activation f = Activation::none);
// x (N, H, W, C), w (O, KH, KW, C), b (O).
Var conv2d(const Var& x, const Var& w, const Var& b, const Conv2dOptions& options, Activation f = Activation::none);
Var avg_pool(const Var& x, const PoolOptions& options);
Var max_pool(const Var& x, const PoolOptions& options);

// Over all elements, into a scalar, f32. These and what follows take bf16 and f16, too, and compute in f32.
Var sum(const Var& x);
Var mean(const Var& x);
// Of scalars, one or more.
Var mean(const std::vector<Var>& scalars);
// Losses (R,) of logits (R, C) at integer labels (R,).
Var softmax_cross_entropy(const Var& logits, const Var& labels);
// The share of rows whose largest logit stands at the label, a scalar; not differentiated.
Var accuracy(const Var& logits, const Var& labels);

inline Var operator+(const Var& a, const Var& b) { return add(a, b); }
inline Var operator+(const Var& a, double b) { return add(a, b); }
inline Var operator+(double a, const Var& b) { return add(b, a); }
inline Var operator-(const Var& a, const Var& b) { return subtract(a, b); }
inline Var operator-(const Var& a, double b) { return add(a, -b); }
inline Var operator-(double a, const Var& b) { return add(scale(b, -1.0), a); }
inline Var operator-(const Var& a) { return scale(a, -1.0); }
inline Var operator*(const Var& a, const Var& b) { return multiply(a, b); }
inline Var operator*(const Var& a, double b) { return scale(a, b); }
inline Var operator*(double a, const Var& b) { return scale(b, a); }

}  // namespace giro::nn
