#include <giro/kernels/accuracy.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {

namespace {

void check(std::string_view op, const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  checks::on_device(op, {{"out", out}, {"logits", logits}, {"labels", labels}}, stream);
  checks::has_dtype(op, {"out", out}, DType::f32);
  checks::has_dtype(op, {"logits", logits}, DType::f32);
  checks::is_integer(op, {"labels", labels});
  checks::has_rank(op, {"logits", logits}, 2);
  checks::has_shape(op, {"labels", labels}, {logits.shape()[0]});
}

}  // namespace

void accuracy(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  check("accuracy", out, logits, labels, stream);
  checks::has_shape("accuracy", {"out", out}, {});
  if (logits.count() == 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("accuracy: logits is {}, which has no elements", to_string(logits)));
  }
  GIRO_QUEUE(stream, accuracy, (out, logits, labels), {out}, {logits, labels}, elements(logits));
}

void correct(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  check("correct", out, logits, labels, stream);
  checks::has_shape("correct", {"out", out}, labels.shape());
  if (logits.shape()[1] == 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("correct: logits is {}, expected one class or more", to_string(logits)));
  }
  GIRO_QUEUE(stream, correct, (out, logits, labels), {out}, {logits, labels}, elements(logits));
}

}  // namespace giro
