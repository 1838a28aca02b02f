#include "kernels/ops.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// Combines the gradient of an average pooling with the gradient of the relu before it.
bool pool_gradient(OpList& ops, std::size_t i) {
  const auto* const pool = detail::op_of<ops::AvgPoolBackward>(ops[i]);
  if (pool == nullptr || pool->has_relu || !pool_windows_tile(pool->dx.shape(), pool->options)) return false;
  const Tensor &dx = pool->dx, &dy = pool->dy;
  const auto relu = only_reader_as(relu_gradient_of, ops, i, dx);
  if (!relu || relu->y.dtype() != dx.dtype() || ops.replaces(relu->out, dy) || !ops.can_run_late(i, relu->at)) {
    return false;
  }
  ops.replace(relu->at, "avg_pool_activation_backward",
              ops::AvgPoolBackward{.dx = relu->out.reshape(dx.shape()),
                                   .dy = dy,
                                   .x = relu->y.reshape(dx.shape()),
                                   .options = pool->options,
                                   .has_relu = true},
              {i});
  return true;
}

// A pooling applies the relu before it, and so does the pooling's gradient: z > 0 is equivalent to relu(z) > 0.
bool pool_after_relu(OpList& ops, std::size_t i) {
  const std::optional<Computed> relu = relu_of(ops[i]);
  if (!relu || ops.replaces(relu->out, relu->in)) return false;
  const auto readers = ops.readers(i, relu->out);
  if (!readers) return false;
  std::size_t pools = 0;
  for (const std::size_t k : *readers) {
    const auto* const pool = detail::op_of<ops::AvgPool>(ops[k]);
    const auto* const backward = detail::op_of<ops::AvgPoolBackward>(ops[k]);
    if (!ops.is_unchanged(relu->in, i, k)) return false;
    if (pool != nullptr && !pool->has_relu && same(pool->x, relu->out) &&
        pool_windows_tile(pool->x.shape(), pool->options)) {
      ++pools;
    } else if (backward == nullptr || !same(backward->x, relu->out) || !backward->has_relu ||
               ops.replaces(backward->dx, relu->in)) {
      return false;
    }
  }
  if (pools == 0) return false;
  for (const std::size_t k : *readers) {
    if (const auto* const pool = detail::op_of<ops::AvgPool>(ops[k])) {
      ops.replace(k, "activation_avg_pool",
                  ops::AvgPool{pool->y, relu->in.reshape(pool->x.shape()), pool->options, true});
    } else {
      ops::AvgPoolBackward backward = *detail::op_of<ops::AvgPoolBackward>(ops[k]);
      backward.x = relu->in.reshape(backward.x.shape());
      ops.replace(k, "avg_pool_activation_backward", backward);
    }
  }
  ops.drop(i);
  return true;
}

}  // namespace giro::rules
