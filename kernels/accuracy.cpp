#include <giro/kernels/accuracy.h>

#include <giro/kernels/reduce.h>

#include "kernels/checks.h"
#include "kernels/correct_rows.h"
#include "kernels/expr/expression_op.h"
#include "runtime/throw_error.h"

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
