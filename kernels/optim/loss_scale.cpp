#include <giro/kernels/optim/loss_scale.h>

#include <utility>

#include "kernels/checks.h"
#include "kernels/expr/term.h"
#include "runtime/held_values.h"

namespace giro::optim {

void adjust_loss_scale(const LossScale& scale, const Tensor& squared_norm, const Stream& stream) {
  constexpr std::string_view op = "adjust_loss_scale";
  const auto check = [&](const checks::Argument& argument, DType dtype) {
    checks::on_device(op, {argument}, stream);
    checks::has_dtype_and_shape(op, argument, dtype, {});
  };
  check({"scale", scale.scale}, DType::f32);
  check({"good_steps", scale.good_steps}, DType::i64);
  check({"skipped", scale.skipped}, DType::i64);
  check({"squared_norm", squared_norm}, DType::f64);

  for (const Tensor& leaf : {scale.scale, scale.good_steps, scale.skipped}) giro::detail::before_write(leaf, stream);
  expr::Builder code({});
  const auto read = [&](const Tensor& leaf) { return expr::Term(code, code.read(leaf, {})); };
  const auto before = read(scale.scale), good_steps = read(scale.good_steps), skipped = read(scale.skipped);
  const auto is_good = is_finite(read(squared_norm));
  const auto is_early = good_steps + 1 < LossScale::kGrowthInterval;
  const auto larger = where(is_early, before, minimum(before * 2, LossScale::kMaxScale));
  where(is_good, larger, maximum(before * 0.5, LossScale::kMinScale)).write(scale.scale, {});
  where(is_good, where(is_early, good_steps + 1, 0), 0).write(scale.good_steps, {});
  where(is_good, skipped, skipped + 1).write(scale.skipped, {});
  queue("adjust_loss_scale", std::move(code).take(), stream);
}

}  // namespace giro::optim
