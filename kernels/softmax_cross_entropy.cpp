#include <giro/kernels/softmax_cross_entropy.h>

#include "kernels/checks.h"
#include "kernels/ops.h"

namespace giro {
void softmax_cross_entropy(const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& labels,
                           const Stream& stream) {
  constexpr std::string_view op = "softmax_cross_entropy";
  checks::on_device(op, {{"losses", losses}, {"dlogits", dlogits}, {"logits", logits}, {"labels", labels}}, stream);
  checks::is_storage(op, {"logits", logits});
  checks::is_integer(op, {"labels", labels});
  checks::has_rank(op, {"logits", logits}, 2);
  checks::has_shape(op, {"labels", labels}, {logits.shape()[0]});
  checks::fits_if_given(op, {"dlogits", dlogits}, {"logits", logits}, logits.shape());
  checks::has_dtype_and_shape(op, {"losses", losses}, DType::f32, {logits.shape()[0]});
  queue(ops::SoftmaxCrossEntropy{losses, dlogits, logits, labels}, stream);
}

}  // namespace giro
