#include <giro/kernels/pool.h>

#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// The gradient of an average pooling, and of the activation before it.
bool pool_gradient(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const pool = GIRO_ARGUMENTS(ops[i], avg_pool_backward);
  if (pool == nullptr) return false;
  const auto [dx, dy, options] = *pool;
  if (!pool_windows_tile(dx.shape(), options)) return false;
  const auto reader = ops.only_reader(i, dx);
  const auto* const activation = reader ? GIRO_ARGUMENTS(ops[*reader], activation_backward) : nullptr;
  if (activation == nullptr || !same(std::get<1>(*activation), dx)) return false;
  const auto [dz, from, x, f] = *activation;
  if (needs_input(f) || detail::overlap(dz, dy) || !ops.can_run_late(i, *reader)) return false;
  avg_pool_activation_backward(dz.reshape(dx.shape()), Tensor(), dy, x.reshape(dx.shape()), Tensor(), f, options,
                               stream);
  ops.replace(*reader, {i});
  return true;
}

}  // namespace giro::rewrite
