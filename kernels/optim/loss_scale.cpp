#include <giro/kernels/optim/loss_scale.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro::optim {

void adjust_loss_scale(const LossScale& scale, const Tensor& squared_norm, const Stream& stream) {
  constexpr std::string_view op = "adjust_loss_scale";
  const auto check = [&](const checks::Argument& argument, DType dtype) {
    checks::on_device(op, {argument}, stream);
    checks::has_dtype(op, argument, dtype);
    checks::has_shape(op, argument, {});
  };
  check({"scale", scale.scale}, DType::f32);
  check({"good_steps", scale.good_steps}, DType::i64);
  check({"skipped", scale.skipped}, DType::i64);
  check({"squared_norm", squared_norm}, DType::f32);
  GIRO_QUEUE(stream, adjust_loss_scale, (scale, squared_norm), {scale.scale, scale.good_steps, scale.skipped},
             {scale.scale, scale.good_steps, scale.skipped, squared_norm});
}

}  // namespace giro::optim
