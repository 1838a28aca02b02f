#include <giro/kernels/accuracy.h>

#include <utility>

#include <giro/kernels/reduce.h>

#include "kernels/internal/checks.h"
#include "kernels/internal/correct_rows.h"
#include "kernels/pointwise/term.h"
#include "runtime/internal/throw_error.h"

namespace giro {

namespace {

void check(std::string_view op, const Tensor& out, const Shape& of_out, const Tensor& logits, const Tensor& labels,
           const Stream& stream) {
  checks::on_device(op, {{"out", out}, {"logits", logits}, {"labels", labels}}, stream);
  checks::is_storage(op, {"logits", logits});
  checks::is_integer(op, {"labels", labels});
  checks::has_rank(op, {"logits", logits}, 2);
  checks::has_shape(op, {"labels", labels}, {logits.shape()[0]});
  checks::has_dtype_and_shape(op, {"out", out}, DType::f32, of_out);
}

}  // namespace

pointwise::Expression correct_rows(const Tensor& out, const Tensor& logits, const Tensor& labels) {
  using pointwise::Layout;
  using pointwise::Term;
  const Shape& space = logits.shape();
  pointwise::Builder code(space, 1);
  const Term logit = Term(code, code.read(logits, pointwise::broadcast_layout(space, space))).cast(DType::f32);
  const Term label(code, code.read(labels, Layout{.strides = {1}}));
  const Term best = logit.reduce(pointwise::Combiner::argmax, DType::i64);
  const Term is_correct = (best == label.cast(DType::i64)).cast(DType::f32);
  const Term largest = logit.reduce(pointwise::Combiner::max, DType::f32);
  where(is_nan(largest), 0, is_correct).write(out, Layout{.strides = {1}});
  return std::move(code).take();
}

void accuracy(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  check("accuracy", out, {}, logits, labels, stream);
  if (logits.count() == 0) {
    throw_error(ErrorCode::invalid_argument, "accuracy: logits is {}, which has no elements", to_string(logits));
  }
  const Buffer memory = stream.allocate(labels.shape().count() * sizeof(float));
  const Tensor rows(memory.data(), DType::f32, labels.shape(), stream.device());
  queue("correct", correct_rows(rows, logits, labels), stream);
  mean(out, rows, stream);
}

void correct(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  check("correct", out, labels.shape(), logits, labels, stream);
  if (logits.shape()[1] == 0) {
    throw_error(ErrorCode::invalid_argument, "correct: logits is {}, expected at least one class", to_string(logits));
  }
  queue("correct", correct_rows(out, logits, labels), stream);
}

}  // namespace giro
