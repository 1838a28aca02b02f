#include <giro/kernels/nn/metrics.h>

#include <giro/kernels/nn/functional.h>

#include "kernels/elementwise.h"
#include "kernels/nn/arguments.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

struct Moments {
  Var mean, deviation, count;
};

Moments moments_of(const Var& x, const Var& m, bool has_deviation) {
  const Var values = stop_gradient(x), mask = stop_gradient(m);
  const auto number = [&] { return Var::computed(DType::f64, {}, {values, mask}, nullptr); };
  const Moments result{number(), has_deviation ? number() : Var(), number()};
  const Stream& stream = result.mean.stream();
  const Var numbers = cast(values.on(stream), DType::f32);
  const Var flags = mask.is_empty() ? mask : cast(mask.on(stream), DType::boolean);
  ops::moments(result.mean.value(), result.deviation.value(), result.count.value(), numbers.value(), flags.value(),
               stream);
  return result;
}

// The fraction of right elements.
Metric share_of(const Var& right, const Var& mask) {
  right.set_direction(Direction::higher);
  return average(right, mask);
}

Var correct_rows_of(const char* op, const Var& logits, const Var& labels) {
  giro::detail::expect_fit(op, "logits: s(rc), labels: i(r)", {&logits.value(), &labels.value()});
  if (logits.shape()[1] == 0) {
    throw_invalid("{}: logits is {}, expected at least one class", op, to_string(logits.value()));
  }
  Var out = Var::computed(DType::f32, labels.shape(), {logits, labels}, nullptr);
  out.set_direction(Direction::higher);
  queue("correct", ops::correct_rows(out.value(), logits.value(), labels.value()), out.stream());
  return out;
}

void expect_classes(const char* op, const Var& predictions, const Var& labels) {
  if (is_floating(predictions.dtype()) || is_floating(labels.dtype())) {
    throw_error(ErrorCode::dtype_mismatch, "{}: predictions is {}, labels is {}; expected class indices", op,
                to_string(predictions.value()), to_string(labels.value()));
  }
  giro::detail::expect_fit(op, "labels: *(...) -> predictions: *(...)", {&labels.value()}, {&predictions.value()});
}

// Of the elements that have the class in `among`, the fraction that have it in `other`, too.
Metric share(const Var& other, const Var& among, std::int64_t of_class, const Var& mask) {
  const auto is_of = [&](const Var& x) { return cast(x, DType::i64) == of_class; };
  Var counts = is_of(among);
  if (!mask.is_empty()) {
    counts =
        logical_and(counts, with_first_axes("mask", cast(mask.on(counts.stream()), DType::boolean), among.shape()));
  }
  return share_of(cast(is_of(other), DType::f32), counts);
}

}  // namespace

Metric average(const Var& values, const Var& mask, Where where) {
  const detail::CallSite site(where);
  const Moments of = moments_of(values, mask, false);
  of.mean.set_direction(values.direction());
  return {of.mean, of.count};
}

Metric standard_deviation(const Var& values, const Var& mask, Where where) {
  const detail::CallSite site(where);
  const Moments of = moments_of(values, mask, true);
  return {of.deviation, of.count, of.mean};
}

Metric accuracy(const Var& logits, const Var& labels, const Var& mask, Where where) {
  const detail::CallSite site(where);
  return average(correct(logits, labels), mask);
}

Var correct(const Var& logits, const Var& labels, Where where) {
  const detail::CallSite site(where);
  return correct_rows_of("correct", stop_gradient(logits), labels);
}

Var accuracy(const Operand& given, const Var& labels) {
  const detail::CallSite site(given.where);
  const Var logits = stop_gradient(given.var);
  const Var rows = correct_rows_of("accuracy", logits, labels);
  if (rows.shape().count() == 0) {
    throw_invalid("accuracy: logits is {}, which has no elements", to_string(logits.value()));
  }
  return mean(rows);
}

Metric top_k_accuracy(const Var& given, const Var& labels, std::int64_t k, const Var& mask, Where where) {
  const detail::CallSite site(where);
  giro::detail::expect_fit("top_k_accuracy", "logits: *(...c)", {&given.value()});
  const std::int64_t classes = given.shape()[-1];
  if (k < 1 || k > classes) {
    throw_invalid("top_k_accuracy: k is {}, expected 1 to {}, the number of classes", k, classes);
  }
  const Var logits = stop_gradient(given);
  const Shape column = with_size(given.shape(), given.shape().rank() - 1, 1);
  const Var at = labels.on(logits.stream()).reshape(column), own = take_along_axis(logits, at, -1);
  const Var is_before = logical_and(logits == own, arange(classes, logits.stream()) < at);
  const Var better = sum(logical_or(logical_not(logits <= own), is_before), Axes({-1}).dropped());
  return share_of(cast(better < k, DType::f32), mask);
}

Metric perplexity(const Var& losses, const Var& mask, Where where) {
  const detail::CallSite site(where);
  const Metric of_losses = average(losses, mask);
  const Var value = exp(of_losses.value);
  value.set_direction(Direction::lower);
  return {.value = value, .count = of_losses.count, .logarithm = of_losses.value};
}

Metric precision(const Var& predictions, const Var& labels, std::int64_t of_class, const Var& mask, Where where) {
  const detail::CallSite site(where);
  expect_classes("precision", predictions, labels);
  return share(labels, predictions, of_class, mask);
}

Metric recall(const Var& predictions, const Var& labels, std::int64_t of_class, const Var& mask, Where where) {
  const detail::CallSite site(where);
  expect_classes("recall", predictions, labels);
  return share(predictions, labels, of_class, mask);
}

Metric confusion_matrix(const Var& predictions, const Var& labels, std::int64_t classes, Where where) {
  const detail::CallSite site(where);
  expect_classes("confusion_matrix", predictions, labels);
  if (classes < 1) throw_invalid("confusion_matrix: classes is {}, expected at least 1", classes);
  const Var column = cast(predictions, DType::i64), row = cast(labels, DType::i64);
  const auto is_class = [&](const Var& x) { return logical_and(x >= 0, x < classes); };
  const Var cell = nn::where(logical_and(is_class(row), is_class(column)), row * classes + column, -1);
  const Var zeros = arange(classes * classes, cell.stream()) * 0;
  return {.value = scatter_add(zeros, cell, cell * 0 + 1).reshape({classes, classes})};
}

}  // namespace giro::nn
