#pragma once

#include <giro/kernels/activation.h>
#include <giro/kernels/conv2d.h>
#include <giro/kernels/nn/attention.h>
#include <giro/kernels/nn/cumulative.h>
#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/operand.h>
#include <giro/kernels/nn/random.h>
#include <giro/kernels/nn/reduce.h>
#include <giro/kernels/nn/slice.h>
#include <giro/kernels/nn/var.h>
#include <giro/kernels/pool.h>

namespace giro::nn {

// The ops of kernels/ on Vars: the same mathematics, but they allocate their output and know their gradient. Errors are
// those of the ops and are thrown by the call. They name the line of the call, `where`; so does the program of a
// recording.

// x converted to a dtype; x itself if it already has it. Conversion to an integer truncates toward zero; to boolean it
// is x != 0.
Var cast(const Var& x, DType dtype, Where where = Where::current());

// factor * x in x's dtype if that is bf16 or f16, else as f32; the gradient reaches x if x is f32, bf16 or f16.
Var scale(const Var& x, double factor, Where where = Where::current());
Var activation(const Var& x, Activation f, Where where = Where::current());
// (N, ...) -> (N, product of the rest).
Var flatten(const Var& x, Where where = Where::current());
// Layers compute in the dtype of their weights w; a floating x is converted to it. f(x w + b); x (B, I), w (I, O), b
// (O).
Var dense(const Var& x, const Var& w, const Var& b, Activation f = Activation::none, Where where = Where::current());
// x (N, H, W, C), w (O, KH, KW, C), b (O).
Var conv2d(const Var& x, const Var& w, const Var& b, const Conv2dOptions& options, Activation f = Activation::none,
           Where where = Where::current());
Var avg_pool(const Var& x, const PoolOptions& options, Where where = Where::current());
Var max_pool(const Var& x, const PoolOptions& options, Where where = Where::current());

// These also take bf16 and f16, and compute in f32.
// Losses (R,) of logits (R, C) for integer labels (R,).
Var softmax_cross_entropy(const Var& logits, const Var& labels, Where where = Where::current());
// The fraction of rows with the largest logit at the label, a scalar; not differentiated.
Var accuracy(const Operand& logits, const Var& labels);  // for a mask see metrics.h

}  // namespace giro::nn
