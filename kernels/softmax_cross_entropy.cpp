#include <giro/kernels/softmax_cross_entropy.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/checks.h"
#include "kernels/internal/ops.h"

namespace giro {
void softmax_cross_entropy(const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& labels,
                           const Stream& stream) {
  constexpr std::string_view op = "softmax_cross_entropy";
  checks::on_device(op, {{"losses", losses}, {"dlogits", dlogits}, {"logits", logits}, {"labels", labels}}, stream);
  checks::is_storage(op, {"logits", logits});
  checks::is_integer(op, {"labels", labels});
  checks::has_rank(op, {"logits", logits}, 2);
  checks::has_shape(op, {"labels", labels}, {logits.shape()[0]});
  if (dlogits) {
    checks::is_f32_or_as(op, {"dlogits", dlogits}, {"logits", logits});
    checks::same_shape(op, {"dlogits", dlogits}, {"logits", logits});
  }
  checks::has_dtype(op, {"losses", losses}, DType::f32);
  checks::has_shape(op, {"losses", losses}, {logits.shape()[0]});
  queue(ops::SoftmaxCrossEntropy{losses, dlogits, logits, labels}, stream);
}

}  // namespace giro
