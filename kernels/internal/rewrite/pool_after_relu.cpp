#include <giro/kernels/conv2d.h>
#include <giro/kernels/pool.h>

#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// A convolution's relu is left to the pooling after it, and to what goes back through it: there z > 0 says as much as
// relu(z) > 0. On a GPU so is its bias, which is a pass of its own there.
bool pool_after_relu(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const convolution = GIRO_ARGUMENTS(ops[i], conv2d);
  if (convolution == nullptr || std::get<4>(*convolution) != Activation::relu) return false;
  const auto [y, x, w, b, f, options, math] = *convolution;
  const Tensor bias = stream.device().is_cuda() && b && b.dtype() == y.dtype() ? b : Tensor();
  const auto readers = ops.readers(i, y);
  if (!readers) return false;
  std::size_t pools = 0;
  for (const std::size_t k : *readers) {
    const auto* const pool = GIRO_ARGUMENTS(ops[k], avg_pool);
    const auto* const backward = GIRO_ARGUMENTS(ops[k], avg_pool_activation_backward);
    if (bias && !ops.stays(bias, i, k)) return false;
    if (pool != nullptr && same(std::get<1>(*pool), y) && pool_windows_tile(y.shape(), std::get<2>(*pool))) {
      ++pools;
    } else if (backward == nullptr || !same(std::get<3>(*backward), y) || std::get<4>(*backward) ||
               std::get<5>(*backward) != f || detail::overlap(std::get<0>(*backward), y)) {
      return false;
    }
  }
  if (pools == 0) return false;
  for (const std::size_t k : *readers) {
    if (const auto* const pool = GIRO_ARGUMENTS(ops[k], avg_pool)) {
      const auto [pooled, from, window] = *pool;
      activation_avg_pool(pooled, from, bias, f, window, stream);
      ops.replace(k);
    } else {
      const auto [dz, db, dy, from, none, g, window] = *GIRO_ARGUMENTS(ops[k], avg_pool_activation_backward);
      avg_pool_activation_backward(dz, db, dy, from, bias, g, window, stream);
      ops.replace(k);
    }
  }
  giro::conv2d(y, x, w, bias ? Tensor() : b, Activation::none, options, math, stream);
  ops.replace(i);
  return true;
}

}  // namespace giro::rewrite
