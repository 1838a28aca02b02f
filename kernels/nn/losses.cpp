#include <giro/kernels/nn/losses.h>

#include <algorithm>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/runtime/step_context.h>

#include "kernels/nn/apply.h"
#include "kernels/nn/arguments.h"
#include "runtime/call_site.h"
#include "runtime/program/op_signature.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

const Axes kLast = Axes({-1}).dropped();

Var as_losses(const Var& values) {
  values.set_direction(Direction::lower);
  return values;
}

// A loss computes in f32, or f64 if it is given some: 16 bits have too little range for squares and sums, and bytes
// would wrap. A constant without a stream takes the other operand's.
Operand in_f32(const Operand& x, const Operand& other = Operand(0)) {
  if (x.is_number || x.var.dtype() == DType::f32 || x.var.dtype() == DType::f64) return x;
  return {cast(on_stream_of(x.var, other.var), DType::f32, x.where), x.where};
}

}  // namespace

Var squared_error(const Operand& prediction, const Operand& target) {
  const detail::CallSite site(prediction.where);
  return as_losses(square(in_f32(prediction, target) - in_f32(target, prediction)));
}

Var absolute_error(const Operand& prediction, const Operand& target) {
  const detail::CallSite site(prediction.where);
  return as_losses(abs(in_f32(prediction, target) - in_f32(target, prediction)));
}

Var huber(const Operand& prediction, const Operand& target, double delta) {
  const detail::CallSite site(prediction.where);
  if (!(delta > 0)) throw_invalid("huber: delta is {}, expected a positive number", delta);
  const Var error = absolute_error(prediction, target), inner = minimum(error, delta);
  return as_losses(0.5 * square(inner) + delta * (error - inner));
}

Var binary_cross_entropy_with_logits(const Operand& given_logits, const Operand& given_targets,
                                     const BinaryCrossEntropyOptions& options) {
  const detail::CallSite site(given_logits.where);
  const Operand logits = in_f32(given_logits, given_targets), targets = in_f32(given_targets, given_logits);
  // Without cancellation, unlike softplus(x) - t x.
  Var positive = targets * softplus(-logits);
  if (!options.positive_weight.is_empty()) positive = options.positive_weight * positive;
  const Operand rest = targets.is_number ? Operand(1 - targets.number) : Operand(1 - targets);
  return as_losses(positive + rest * softplus(logits));
}

Var softmax_cross_entropy(const Var& logits, const Var& labels, const CrossEntropyOptions& options, Where where) {
  const detail::CallSite site(where);
  constexpr const char* op = "softmax_cross_entropy";
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1)) throw_invalid("{}: label_smoothing is {}, expected 0 to 1", op, smoothing);
  const bool has_weights = static_cast<bool>(options.class_weights.value()), has_targets = is_floating(labels.dtype());
  giro::detail::expect_fit(op, "logits: *(...c)", {&logits.value()});
  const std::int64_t classes = logits.shape()[-1];
  if (has_weights) {
    giro::detail::expect_fit(op, "logits: *(...c), class_weights: *(c)",
                             {&logits.value(), &options.class_weights.value()});
  }
  // -log p of each class, times its weight.
  const auto terms = [&] {
    const Var all = -log_softmax(logits);
    return has_weights ? options.class_weights * all : all;
  };
  if (has_targets) {
    if (options.ignored_label) throw_invalid("{}: an ignored label together with targets, expected labels", op);
    giro::detail::expect_fit(op, "logits: *(...) -> targets: *(...)", {&logits.value()}, {&labels.value()});
    const Var exact = in_f32(labels, logits).var;
    const Var targets = smoothing == 0 ? exact : (1 - smoothing) * exact + smoothing / static_cast<double>(classes);
    return as_losses(sum(targets * terms(), kLast));
  }
  const Var is_counted = options.ignored_label ? labels != *options.ignored_label : Var();
  const Var known = options.ignored_label ? nn::where(is_counted, labels, 0) : labels;
  Var losses = softmax_cross_entropy(logits, known);
  if (has_weights) losses = take_checked("softmax_cross_entropy: label", options.class_weights, known) * losses;
  if (smoothing > 0) losses = (1 - smoothing) * losses + smoothing * mean(terms(), kLast);
  return as_losses(options.ignored_label ? nn::where(is_counted, losses, 0) : losses);
}

Var kl_divergence(const Operand& given_log_probs, const Operand& given_targets) {
  const detail::CallSite site(given_log_probs.where);
  const Operand log_probs = in_f32(given_log_probs, given_targets), targets = in_f32(given_targets, given_log_probs);
  return as_losses(sum(xlogy(targets, targets) - targets * log_probs, kLast));
}

Var cosine_similarity(const Operand& a, const Operand& b, int axis, double epsilon) {
  const detail::CallSite site(a.where);
  if (!(epsilon > 0)) throw_invalid("cosine_similarity: epsilon is {}, expected a positive number", epsilon);
  const auto direction = [&](const Operand& given, const Operand& other) {
    const Operand x = in_f32(given, other);
    return x / maximum(norm("cosine_similarity", x, {axis}), epsilon);
  };
  return sum(direction(a, b) * direction(b, a), Axes({axis}).dropped());
}

Var cosine_distance(const Operand& a, const Operand& b, int axis, double epsilon) {
  const detail::CallSite site(a.where);
  return as_losses(1 - cosine_similarity(a, b, axis, epsilon));
}

Var weighted_mean(const Var& given_values, const Var& given, const Var& of_batch, Where where) {
  const detail::CallSite site(where);
  const Var values = in_f32(given_values).var;
  const detail::StepContext& step = detail::StepScope::current();
  const int parts = step.parts;
  if (parts > 1 && of_batch.is_empty()) {
    throw_invalid(
        "weighted_mean: the weights are those of one of {} parts of a batch, expected those of the whole batch, "
        "too: weighted_mean(losses, rows[\"mask\"], batch[\"mask\"])",
        parts);
  }
  const bool is_shared = step.ranks && step.ranks->size() > 1;
  const auto numbers = [&](const Var& x) {
    const Var on_stream = stop_gradient(x).on(values.stream());
    const Var weights = cast(on_stream, is_floating(x.dtype()) ? x.dtype() : DType::f32);
    // A rank without samples holds rows that do not count.
    return is_shared && step.weight == 0 ? weights * 0 : weights;
  };
  const auto over_ranks = [&](const Var& x) { return is_shared ? mean_of_ranks(step.ranks, x) : x; };
  const Var first = numbers(with_first_axes("weighted_mean: weights", given, values.shape()));
  const Var weights = broadcast_to(first, values.shape());
  const Var weighted = over_ranks(sum(nn::where(weights == 0, 0, weights * values)));
  const auto as_mean = [&](const Var& mean) {
    mean.set_direction(values.direction());
    return mean;
  };
  if (of_batch.is_empty()) return as_mean(weighted / over_ranks(sum(weights)));

  const Shape &part = given.shape(), &whole = of_batch.shape();
  const bool fits = part.rank() > 0 && part.rank() == whole.rank() &&
                    std::equal(part.begin() + 1, part.end(), whole.begin() + 1) && part.count() > 0 &&
                    whole.begin()[0] == parts * part.begin()[0];
  if (!fits) {
    throw_shape(
        "weighted_mean: the weights are {}, those of the whole batch are {}; expected one of its {} equal parts",
        to_string(part), to_string(whole), parts);
  }
  const double values_of_each = static_cast<double>(values.shape().count()) / static_cast<double>(part.count());
  return as_mean(weighted / (over_ranks(sum(numbers(of_batch))) * (values_of_each / parts)));
}

}  // namespace giro::nn
