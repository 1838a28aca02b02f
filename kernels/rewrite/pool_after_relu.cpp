#include <giro/kernels/conv2d.h>
#include <giro/kernels/pool.h>

#include "kernels/rewrite/rules.h"

namespace giro::rewrite {

// A convolution's relu is left to the pooling after it, and to what goes back through it: there z > 0 says as much as
// relu(z) > 0.
bool pool_after_relu(OpList& ops, std::size_t i) {
  const auto* const convolution = GIRO_ARGUMENTS(ops[i], conv2d);
  if (convolution == nullptr || std::get<4>(*convolution) != Activation::relu) return false;
  const auto [y, x, w, b, f, options] = *convolution;
  const auto readers = ops.readers(i, y);
  if (!readers) return false;
  std::vector<std::size_t> pools;
  for (const std::size_t k : *readers) {
    const auto* const pool = GIRO_ARGUMENTS(ops[k], avg_pool);
    const auto* const backward = GIRO_ARGUMENTS(ops[k], avg_pool_activation_backward);
    if (pool != nullptr && same(std::get<1>(*pool), y) && pool_windows_tile(y.shape(), std::get<2>(*pool))) {
      pools.push_back(k);
    } else if (backward == nullptr || !same(std::get<2>(*backward), y) || std::get<3>(*backward) != f) {
      return false;
    }
  }
  if (pools.size() != 1) return false;
  const auto [pooled, from, window] = *GIRO_ARGUMENTS(ops[pools.front()], avg_pool);
  ops.replace(pools.front(), {},
              [&](const Stream& stream) { activation_avg_pool(pooled, from, Activation::relu, window, stream); });
  ops.replace(i, {}, [&](const Stream& stream) { giro::conv2d(y, x, w, b, Activation::none, options, stream); });
  return true;
}

}  // namespace giro::rewrite
