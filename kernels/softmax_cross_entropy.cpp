#include <giro/kernels/softmax_cross_entropy.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {
namespace {

void check(std::string_view op, const Tensor& dlogits, const Tensor& logits, const Tensor& labels,
           const Stream& stream) {
  checks::on_device(op, {{"dlogits", dlogits}, {"logits", logits}, {"labels", labels}}, stream);
  checks::has_dtype(op, {"logits", logits}, DType::f32);
  checks::is_integer(op, {"labels", labels});
  checks::has_rank(op, {"logits", logits}, 2);
  checks::has_shape(op, {"labels", labels}, {logits.shape()[0]});
  if (dlogits) {
    checks::has_dtype(op, {"dlogits", dlogits}, DType::f32);
    checks::same_shape(op, {"dlogits", dlogits}, {"logits", logits});
  }
}

}  // namespace

void softmax_cross_entropy(const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& labels,
                           const Stream& stream) {
  constexpr std::string_view op = "softmax_cross_entropy";
  check(op, dlogits, logits, labels, stream);
  checks::on_device(op, {{"losses", losses}}, stream);
  checks::has_dtype(op, {"losses", losses}, DType::f32);
  checks::has_shape(op, {"losses", losses}, {logits.shape()[0]});
  GIRO_QUEUE(stream, softmax_cross_entropy, (losses, dlogits, logits, labels), {losses, dlogits}, {logits, labels},
             4 * elements(logits));
}

void mean_cross_entropy(const Tensor& loss, const Tensor& dlogits, const Tensor& accuracy, const Tensor& logits,
                        const Tensor& labels, double factor, const Stream& stream) {
  constexpr std::string_view op = "mean_cross_entropy";
  check(op, dlogits, logits, labels, stream);
  for (const checks::Argument& scalar : {checks::Argument{"loss", loss}, {"accuracy", accuracy}}) {
    if (!scalar.tensor && scalar.name == "accuracy") continue;
    checks::on_device(op, {scalar}, stream);
    checks::has_dtype(op, scalar, DType::f32);
    checks::has_shape(op, scalar, {});
  }
  if (const std::int64_t rows = logits.shape()[0]; rows < 1 || rows > kMostMeanRows) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: logits has {} rows, expected 1 to {}", op, rows, kMostMeanRows));
  }
  GIRO_QUEUE(stream, mean_cross_entropy, (loss, dlogits, accuracy, logits, labels, factor), {loss, dlogits, accuracy},
             {logits, labels}, (dlogits ? 5 : 4) * elements(logits) + (accuracy ? elements(logits) : 0));
}

}  // namespace giro
