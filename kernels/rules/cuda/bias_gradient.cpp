#include "kernels/internal/ops.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// The gradient of a convolution's bias is summed by the op that computes dz. On the CPU it is computed together with
// the gradient of the weights.
bool bias_gradient(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const pool = detail::op_of<ops::AvgPoolBackward>(ops[i]);
  if (pool == nullptr || !pool->has_relu || pool->db) return false;
  for (std::size_t k = i + 1; k < ops.size(); ++k) {
    const auto* const backward = detail::op_of<ops::Conv2dBackward>(ops[k]);
    if (backward == nullptr || !same(backward->dz, pool->dx) || !backward->db) continue;
    if (!ops.can_run_early(k, i) || !ops.is_untouched(backward->db, i, i + 1)) return false;
    ops::AvgPoolBackward with_sum = *pool;
    with_sum.db = backward->db;
    ops::Conv2dBackward without_sum = *backward;
    without_sum.db = {};
    const bool is_done = !without_sum.dw && !without_sum.dx;
    if (!is_done) {
      queue(without_sum, stream);
      ops.replace(k);
    }
    queue("avg_pool_activation_backward", with_sum, stream);
    ops.replace(i, is_done ? std::vector{k} : std::vector<std::size_t>());
    return true;
  }
  return false;
}

}  // namespace giro::rules
