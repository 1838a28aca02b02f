#include <giro/kernels/pool.h>

#include "kernels/internal/rewrite/patterns.h"
#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// The gradient of an average pooling, and of the relu before it.
bool pool_gradient(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const pool = GIRO_ARGUMENTS(ops[i], avg_pool_backward);
  if (pool == nullptr) return false;
  const auto [dx, dy, options] = *pool;
  if (!pool_windows_tile(dx.shape(), options)) return false;
  const auto reader = ops.only_reader(i, dx);
  const std::optional<ReluGradient> relu = reader ? relu_gradient_of(ops[*reader]) : std::nullopt;
  if (!relu || !same(relu->dy, dx) || relu->y.dtype() != dx.dtype() || detail::overlap(relu->dx, dy) ||
      !ops.can_run_late(i, *reader)) {
    return false;
  }
  avg_pool_activation_backward(relu->dx.reshape(dx.shape()), Tensor(), dy, relu->y.reshape(dx.shape()), Tensor(),
                               Activation::relu, options, stream);
  ops.replace(*reader, {i});
  return true;
}

}  // namespace giro::rewrite
