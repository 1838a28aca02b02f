#include "kernels/internal/ops.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// Adding a convolution's bias takes a pass of its own. The pooling after it adds the bias instead, before the relu if
// it has one.
bool bias_with_pooling(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const convolution = detail::op_of<ops::Conv2d>(ops[i]);
  if (convolution == nullptr || !convolution->b || convolution->b.dtype() != convolution->y.dtype()) return false;
  const Tensor &z = convolution->y, &bias = convolution->b;
  const auto readers = ops.readers(i, z);
  if (!readers) return false;
  std::size_t pools = 0;
  for (const std::size_t k : *readers) {
    const auto* const pool = detail::op_of<ops::ActivationAvgPool>(ops[k]);
    const auto* const backward = detail::op_of<ops::AvgPoolActivationBackward>(ops[k]);
    if (!ops.stays(bias, i, k)) return false;
    if (pool != nullptr && same(pool->z, z) && !pool->b) {
      ++pools;
    } else if (backward == nullptr || !same(backward->x, z) || backward->b) {
      return false;
    }
  }
  if (pools == 0) return false;
  for (const std::size_t k : *readers) {
    if (const auto* const pool = detail::op_of<ops::ActivationAvgPool>(ops[k])) {
      ops::ActivationAvgPool with_bias = *pool;
      with_bias.b = bias;
      queue(with_bias, stream);
    } else {
      ops::AvgPoolActivationBackward with_bias = *detail::op_of<ops::AvgPoolActivationBackward>(ops[k]);
      with_bias.b = bias;
      queue(with_bias, stream);
    }
    ops.replace(k);
  }
  ops::Conv2d without_bias = *convolution;
  without_bias.b = {};
  queue(without_bias, stream);
  ops.replace(i);
  return true;
}

}  // namespace giro::rules
