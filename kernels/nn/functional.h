#pragma once

#include <array>
#include <cstdint>

#include <giro/kernels/activation.h>
#include <giro/kernels/conv2d.h>
#include <giro/kernels/nn/attention.h>
#include <giro/kernels/nn/cumulative.h>
#include <giro/kernels/nn/einsum.h>
#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/indexing.h>
#include <giro/kernels/nn/losses.h>
#include <giro/kernels/nn/matmul.h>
#include <giro/kernels/nn/operand.h>
#include <giro/kernels/nn/random.h>
#include <giro/kernels/nn/reduce.h>
#include <giro/kernels/nn/slice.h>
#include <giro/kernels/nn/sort.h>
#include <giro/kernels/nn/var.h>
#include <giro/kernels/pool.h>

namespace giro::nn {

// The ops of kernels/ on Vars: the same mathematics, but these allocate their output and have gradients. A call throws
// the op's errors. They name the line of the call, `where`; so does the program of a recording.

// x converted to a dtype; x itself if it already has it. Conversion to an integer truncates toward zero; to boolean it
// is x != 0.
Var cast(const Var& x, DType dtype, Where where = Where::current());

// factor * x in x's dtype if that is bf16 or f16, else as f32; the gradient reaches x if x is f32, bf16 or f16.
Var scale(const Var& x, double factor, Where where = Where::current());
Var activation(const Var& x, Activation f, Where where = Where::current());
// (N, ...) -> (N, product of the rest).
Var flatten(const Var& x, Where where = Where::current());
// Layers compute in the dtype of their weights w; a floating x is converted to it. f(x w + b); x (..., I), w (I, O),
// b (O), or Var() for none.
Var dense(const Var& x, const Var& w, const Var& b, Activation f = Activation::none, Where where = Where::current());
// x (N, H, W, C), w (O, KH, KW, C / groups), b (O) or Var().
Var conv2d(const Var& x, const Var& w, const Var& b, const Conv2dOptions& options, Activation f = Activation::none,
           Where where = Where::current());
// The gradient of conv2d with respect to its images, as a layer, also called deconvolution: x (N, H, W, O), w (O, KH,
// KW, C / groups), b (C) or Var(). conv2d with the same options maps the result's shape to x's. The result has the
// smallest such shape, plus `more` rows and columns, fewer than the stride.
Var conv2d_transpose(const Var& x, const Var& w, const Var& b, const Conv2dOptions& options,
                     std::array<std::int64_t, 2> more = {0, 0}, Activation f = Activation::none,
                     Where where = Where::current());
// conv2d of sequences: x (N, L, C), w (O, K, C / groups), b (O) or Var().
struct Conv1dOptions {
  std::int64_t stride = 1, pad_before = 0, pad_after = 0, dilation = 1, groups = 1;
};
Var conv1d(const Var& x, const Var& w, const Var& b, const Conv1dOptions& options, Activation f = Activation::none,
           Where where = Where::current());
Var avg_pool(const Var& x, const PoolOptions& options, Where where = Where::current());
Var max_pool(const Var& x, const PoolOptions& options, Where where = Where::current());

// These also take bf16 and f16, and compute in f32.
// Losses (...) of logits (..., C) for integer labels (...) or probabilities (..., C); for options see losses.h.
Var softmax_cross_entropy(const Var& logits, const Var& labels, Where where = Where::current());
// The fraction of rows with the largest logit at the label, a scalar; not differentiated.
Var accuracy(const Operand& logits, const Var& labels);  // for a mask see metrics.h

}  // namespace giro::nn
