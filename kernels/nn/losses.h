#pragma once

#include <cstdint>
#include <optional>

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// Elementwise losses, unless stated otherwise; mean or weighted_mean reduces them to one number. Arguments broadcast
// and have any dtype; all losses compute in f32, f64 if an argument is. There is no CTC loss.

Var squared_error(const Operand& prediction, const Operand& target);   // (prediction - target)^2
Var absolute_error(const Operand& prediction, const Operand& target);  // |prediction - target|
// e^2 / 2 for errors e of at most delta, else delta (|e| - delta / 2) (Huber, 1964). Error(invalid_argument) unless
// delta > 0.
Var huber(const Operand& prediction, const Operand& target, double delta = 1);
// -w t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) for logits x, targets t in [0, 1] and the weight w of positives.
struct BinaryCrossEntropyOptions {
  Var positive_weight = {};  // 1 if omitted; broadcasts
};
Var binary_cross_entropy_with_logits(const Operand& logits, const Operand& targets,
                                     const BinaryCrossEntropyOptions& options = {});

// With y the label, t the target of each class, p = softmax(logits) and w the weights of the classes, a row's loss is
//   (1 - s) w[y] (-log p[y]) + s / C sum_c w[c] (-log p[c])          for labels
//   sum_c w[c] ((1 - s) t[c] + s / C) (-log p[c])                    for targets.
struct CrossEntropyOptions {
  double label_smoothing = 0;                      // s, in [0, 1] (Szegedy et al., 2016)
  Var class_weights = {};                          // w (C,), 1 if omitted
  std::optional<std::int64_t> ignored_label = {};  // rows with this label have loss 0 and gradient 0
};
// Losses (...) of logits (..., C), for integer labels (...) or for targets (..., C) of a floating dtype. bf16 and f16
// are computed in f32. A label outside [0, C) that is not ignored makes the loss and its gradient NaN, and is an
// Error(invalid_argument), thrown when the host next waits for the stream or reads the step's logs. Their mean divides
// by the number of rows. To leave ignored labels out of it: weighted_mean(losses, labels != ignored_label). PyTorch
// divides by the sum of the labels' weights: weighted_mean(losses without class weights, take(class_weights, labels)).
// Errors: shape_mismatch, dtype_mismatch; invalid_argument for a label smoothing outside [0, 1], or an ignored label
// with targets.
Var softmax_cross_entropy(const Var& logits, const Var& labels, const CrossEntropyOptions& options,
                          Where where = Where::current());

// sum_c t[c] (log t[c] - log_probs[c]) along the last axis, which is dropped; 0 log 0 is 0.
Var kl_divergence(const Operand& log_probs, const Operand& targets);

// The similarity is a b / (max(|a|, epsilon) max(|b|, epsilon)) along an axis, which is dropped; the distance is 1
// minus the similarity.
Var cosine_similarity(const Operand& a, const Operand& b, int axis = -1, double epsilon = 1e-8);
Var cosine_distance(const Operand& a, const Operand& b, int axis = -1, double epsilon = 1e-8);

// sum(weights values) / sum(weights), where the weights have the shape of the values or of their first axes and any
// dtype: a mask, for example. A value with the weight 0 does not count, even if it is NaN. NaN if the weights add up to
// 0. Gradients flow to the values alone. In a step, and in a loss of a state, both sums are those over all ranks that
// share the batch. In a call of value_and_grad for one part of a batch, `of_batch` is the weights of this rank's whole
// batch, of which `weights` are some rows; the mean of the parts' results is then that of the batch:
//
//   weighted_mean(softmax_cross_entropy(logits, rows["label"]), rows["mask"], batch["mask"])
//
// Errors: shape_mismatch; invalid_argument for a part of a batch without `of_batch`.
Var weighted_mean(const Var& values, const Var& weights, const Var& of_batch = {}, Where where = Where::current());

}  // namespace giro::nn
