#include <giro/kernels/optim/loss_scale.h>

#include <utility>

#include "kernels/expr/term.h"
#include "runtime/held_values.h"
#include "runtime/program/op_signature.h"

namespace giro::optim {

void adjust_loss_scale(const LossScale& scale, const Tensor& squared_norm, const Stream& stream) {
  detail::expect_fit("adjust_loss_scale", "scale: f32(), good_steps: i64(), skipped: i64(), squared_norm: f64()",
                     {&scale.scale, &scale.good_steps, &scale.skipped, &squared_norm});
  for (const Tensor& leaf : {scale.scale, scale.good_steps, scale.skipped}) detail::before_write(leaf, stream);
  expr::Builder code({});
  const auto read = [&](const Tensor& leaf) { return code.read(leaf, {}); };
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
