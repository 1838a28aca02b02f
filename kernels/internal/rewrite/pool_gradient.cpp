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
  // Often in place: then dx is written twice, and what follows reads it.
  for (std::size_t k = i + 1; k < ops.size(); ++k) {
    const auto* const activation = GIRO_ARGUMENTS(ops[k], activation_backward);
    if (activation == nullptr || !same(std::get<1>(*activation), dx)) continue;
    const auto [dz, from, x, f] = *activation;
    const bool in_place = dz.raw() == dx.raw();
    if (needs_input(f) || detail::overlap(dz, dy)) return false;
    if (!in_place && ops.only_reader(i, dx) != k) return false;
    if (!ops.can_run_late(i, k)) return false;
    avg_pool_activation_backward(dz.reshape(dx.shape()), Tensor(), dy, x.reshape(dx.shape()), Tensor(), f, options,
                                 stream);
    ops.replace(k, {i});
    return true;
  }
  return false;
}

}  // namespace giro::rewrite
