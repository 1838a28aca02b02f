#include "kernels/internal/ops.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// Combines the gradient of an average pooling with the gradient of the relu before it.
bool pool_gradient(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const pool = detail::op_of<ops::AvgPoolBackward>(ops[i]);
  if (pool == nullptr || pool->has_relu || !pool_windows_tile(pool->dx.shape(), pool->options)) return false;
  const Tensor &dx = pool->dx, &dy = pool->dy;
  const auto reader = ops.only_reader(i, dx);
  const std::optional<ReluGradient> relu = reader ? relu_gradient_of(ops[*reader]) : std::nullopt;
  if (!relu || !same(relu->dy, dx) || relu->y.dtype() != dx.dtype() || detail::overlap(relu->dx, dy) ||
      !ops.can_run_late(i, *reader)) {
    return false;
  }
  queue("avg_pool_activation_backward",
        ops::AvgPoolBackward{.dx = relu->dx.reshape(dx.shape()),
                             .dy = dy,
                             .x = relu->y.reshape(dx.shape()),
                             .options = pool->options,
                             .has_relu = true},
        stream);
  ops.replace(*reader, {i});
  return true;
}

}  // namespace giro::rules
