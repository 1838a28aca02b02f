#include "kernels/expr/expression.h"
#include "kernels/expr/expression_op.h"
#include "kernels/few_channels.h"
#include "kernels/narrow_layers.h"
#include "kernels/ops.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {
namespace {

bool same_array(const Tensor& a, const Tensor& b) { return same(a, b) && a.shape() == b.shape(); }

}  // namespace

// For a weight that is used in several places: adds each further gradient to the first one in place, without a
// temporary. The GPU's library can add to its output; the CPU's cannot.
bool add_in_place(OpList& ops, std::size_t i) {
  const auto* const backward = detail::op_of<ops::DenseBackward>(ops[i]);
  if (backward == nullptr) return false;
  const Tensor dw = backward->dw;
  if (backward->dx || !dw || dw.dtype() != DType::f32) return false;
  const auto reader = ops.only_reader(i, dw);
  const std::optional<Addition> add = reader ? addition_of(ops[*reader]) : std::nullopt;
  if (!add) return false;
  const auto [sum, a, b] = *add;
  if (same(a, dw) == same(b, dw) || sum.dtype() != DType::f32 || !ops.can_run_early(*reader, i)) return false;
  const Tensor first = same(a, dw) ? b : a;
  // The sum must replace the first gradient, as after an earlier backward pass, or that must be a temporary which it
  // can replace.
  const auto writer = ops.writer(first);
  const bool replaces = ops.replaces_exactly(sum, first)
                            ? !ops.replaces_reads(sum, i)
                            : writer && *writer < i && ops.write_under(sum, first, *writer, *reader);
  if (!replaces) return false;
  ops.tie(sum, first);
  ops.replace(i,
              ops::DenseBackwardAdd{sum.reshape(dw.shape()), backward->db, backward->dz, backward->x, backward->math},
              {*reader});
  return true;
}

// Layers with few outputs, and their gradients with respect to x, become expressions, with which others can fuse: a
// relu before them, or its gradient.
bool narrow_dense(OpList& ops, std::size_t i) {
  const auto* const forward = detail::op_of<ops::Dense>(ops[i]);
  const auto* const backward = detail::op_of<ops::DenseBackward>(ops[i]);
  if (forward != nullptr && is_expression(*forward)) {
    ops.replace(i, ops::Dense::kName, as_expression(*forward));
  } else if (backward != nullptr && is_expression(*backward) && !backward->dw && !backward->db) {
    ops.replace(i, ops::DenseBackward::kName, as_expression(*backward));
  } else {
    return false;
  }
  return true;
}

// A 16-bit convolution applies the relu that alone reads its result. cuDNN does both in one plan, if there is a bias.
// Its relu clips at the largest f32, which rounds to infinity in 16 bits, but would replace infinity in f32.
bool relu_in_convolution(OpList& ops, std::size_t i) {
  const auto* const convolution = detail::op_of<ops::Conv2d>(ops[i]);
  if (convolution == nullptr || convolution->has_relu || size_of(convolution->y.dtype()) != 2 || !convolution->b ||
      convolution->b.dtype() != convolution->y.dtype()) {
    return false;
  }
  const auto relu = only_reader_as(relu_of, ops, i, convolution->y);
  if (!relu || relu->out.dtype() != convolution->y.dtype() || ops.replaces_reads(relu->out, i) ||
      !ops.can_run_late(i, relu->at)) {
    return false;
  }
  ops::Conv2d both = *convolution;
  both.y = relu->out.reshape(convolution->y.shape());
  both.has_relu = true;
  ops.replace(relu->at, both, {i});
  return true;
}

// A convolution of few channels also computes the relu and average pooling of its result, and the gradient of its
// filters starts at the pooling's. Nothing else reads the result, which is then not stored.
bool pool_in_convolution(OpList& ops, std::size_t i) {
  const auto* const convolution = detail::op_of<ops::Conv2d>(ops[i]);
  if (convolution == nullptr || convolution->has_pool || !FewChannels(*convolution)) return false;
  const Tensor& y = convolution->y;
  const auto readers = ops.readers(i, y, 2);
  if (!readers || readers->empty()) return false;
  const std::size_t at = readers->front();
  const auto* const pool = detail::op_of<ops::AvgPool>(ops[at]);
  if (pool == nullptr || !same_array(pool->x, y) || ops.replaces_reads(pool->y, i) || pool->options != PoolOptions{} ||
      !pool_windows_tile(y.shape(), pool->options) || !(convolution->has_relu || pool->has_relu) ||
      !ops.can_run_late(i, at)) {
    return false;
  }
  ops::Conv2d pooled = *convolution;
  pooled.y = pool->y;
  pooled.has_relu = pooled.has_pool = true;
  if (readers->size() == 2) {
    const std::size_t pool_at = readers->back();
    const auto* const gradient = detail::op_of<ops::AvgPoolBackward>(ops[pool_at]);
    if (gradient == nullptr || !gradient->has_relu || gradient->db || !same_array(gradient->x, y) ||
        gradient->options != pool->options) {
      return false;
    }
    const auto reader = ops.only_reader(pool_at, gradient->dx);
    const auto* const filters = reader ? detail::op_of<ops::Conv2dBackward>(ops[*reader]) : nullptr;
    if (filters == nullptr || filters->dx || !filters->dw || !same_array(filters->dz, gradient->dx) ||
        !same_array(filters->x, convolution->x) || filters->dw.shape() != convolution->w.shape() ||
        filters->options != convolution->options || !ops.can_run_late(pool_at, *reader)) {
      return false;
    }
    for (const Tensor& read : ops.reads(i)) {  // to compute the relu's input again
      if (!ops.is_unchanged(read, i, *reader)) return false;
    }
    ops::Conv2dBackward backward = *filters;
    backward.dz = gradient->dy;
    backward.w = convolution->w;
    backward.b = convolution->b;
    backward.has_pool = true;
    ops.replace(*reader, "conv2d_avg_pool_backward", backward, {pool_at});
  }
  ops.replace(at, "conv2d_avg_pool", pooled, {i});
  return true;
}

// The gradient of a convolution's bias is summed by the op that computes dz. On the CPU it is computed together with
// the gradient of the weights.
bool bias_gradient(OpList& ops, std::size_t i) {
  const auto* const pool = detail::op_of<ops::AvgPoolBackward>(ops[i]);
  if (pool == nullptr || !pool->has_relu || pool->db) return false;
  for (std::size_t k = i + 1; k < ops.size(); ++k) {
    const auto* const backward = detail::op_of<ops::Conv2dBackward>(ops[k]);
    if (backward == nullptr || !same(backward->dz, pool->dx) || !backward->db) continue;
    if (backward->dw && FewChannels(*backward)) return false;  // its kernel sums both at once
    if (!ops.can_run_early(k, i) || ops.replaces_reads(backward->db, i)) return false;
    ops::AvgPoolBackward with_sum = *pool;
    with_sum.db = backward->db;
    ops::Conv2dBackward without_sum = *backward;
    without_sum.db = {};
    const bool is_done = !without_sum.dw && !without_sum.dx;
    if (is_done) {
      ops.drop(k);
    } else {
      ops.replace(k, without_sum);
    }
    ops.replace(i, "avg_pool_activation_backward", with_sum);
    return true;
  }
  return false;
}

// The last expression without reductions before the row is published, such as the update, also publishes the row of
// logs. Launching a separate kernel would cost more than the row.
bool publish_with_update(OpList& ops, std::size_t i) {
  const auto* const publish = detail::op_of<ops::Publish>(ops[i]);
  if (publish == nullptr || static_cast<std::int64_t>(publish->scalars.size()) != publish->ring.columns) return false;
  for (std::size_t k = i; k-- > 0;) {
    const expr::Expression* const expression = expression_of(ops[k]);
    if (expression == nullptr || expr::reduces(*expression)) continue;
    if (!ops.can_run_late(k, i)) return false;
    ops.replace(i, ops[k].node.op + "+publish", ops::RunAndPublish{*expression, *publish}, {k});
    return true;
  }
  return false;
}

}  // namespace giro::rules
