#include <giro/kernels/accuracy.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {

void accuracy(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  checks::on_device("accuracy", {{"out", out}, {"logits", logits}, {"labels", labels}}, stream);
  checks::has_dtype("accuracy", {"out", out}, DType::f32);
  checks::has_dtype("accuracy", {"logits", logits}, DType::f32);
  checks::is_integer("accuracy", {"labels", labels});
  checks::has_shape("accuracy", {"out", out}, {});
  checks::has_rank("accuracy", {"logits", logits}, 2);
  checks::has_shape("accuracy", {"labels", labels}, {logits.shape()[0]});
  if (logits.count() == 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("accuracy: logits is {}, which has no elements", to_string(logits)));
  }
  GIRO_DISPATCH(stream, accuracy, out, logits, labels);
}

}  // namespace giro
