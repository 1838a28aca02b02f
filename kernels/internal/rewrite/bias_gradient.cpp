#include <giro/kernels/conv2d.h>
#include <giro/kernels/pool.h>

#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// The gradient of a convolution's bias is added up where the gradient that it is the sum of is computed. On a GPU
// alone: on the CPU it comes with that of the weights.
bool bias_gradient(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const pool = GIRO_ARGUMENTS(ops[i], avg_pool_activation_backward);
  if (pool == nullptr || std::get<1>(*pool) || stream.device().is_cpu()) return false;
  const auto [dz, none, dy, x, b, f, window] = *pool;
  for (std::size_t k = i + 1; k < ops.size(); ++k) {
    const auto* const backward = GIRO_ARGUMENTS(ops[k], conv2d_backward);
    if (backward == nullptr || !same(std::get<3>(*backward), dz) || !std::get<2>(*backward)) continue;
    const auto [dx, dw, db, by, of, w, options, math] = *backward;
    if (!ops.can_run_early(k, i) || !ops.is_untouched(db, i, i + 1)) return false;
    conv2d_backward(dx, dw, Tensor(), by, of, w, options, math, stream);
    ops.replace(k);
    avg_pool_activation_backward(dz, db, dy, x, b, f, window, stream);
    ops.replace(i);
    return true;
  }
  return false;
}

}  // namespace giro::rewrite
