#include "kernels/internal/ops.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {
namespace {

// The convolution before op `i` whose result x is, if nothing but that op reads it.
std::optional<std::size_t> convolution_of(const OpList& ops, const Tensor& x, std::size_t i) {
  for (std::size_t k = i; k-- > 0;) {
    const auto* const convolution = detail::op_of<ops::Conv2d>(ops[k]);
    if (convolution != nullptr && same(convolution->y, x)) {
      return ops.only_reader(k, x) == i ? std::optional(k) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

// A relu is left to the pooling after it, and to what goes back through it: there z > 0 says as much as relu(z) > 0. On
// a GPU so is the bias of a convolution before it, which is a pass of its own there.
bool pool_after_relu(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const std::optional<Relu> relu = relu_of(ops[i]);
  if (!relu || relu->y.raw() == relu->x.raw()) return false;
  const auto readers = ops.readers(i, relu->y);
  if (!readers) return false;
  const std::optional<std::size_t> convolution = convolution_of(ops, relu->x, i);
  Tensor bias;
  if (convolution && stream.device().is_cuda()) bias = detail::op_of<ops::Conv2d>(ops[*convolution])->b;
  if (bias && bias.dtype() != relu->x.dtype()) bias = Tensor();
  std::size_t pools = 0;
  for (const std::size_t k : *readers) {
    const auto* const pool = detail::op_of<ops::AvgPool>(ops[k]);
    const auto* const backward = detail::op_of<ops::AvgPoolActivationBackward>(ops[k]);
    if (!ops.stays(relu->x, i, k) || (bias && !ops.stays(bias, *convolution, k))) return false;
    if (pool != nullptr && same(pool->x, relu->y) && pool_windows_tile(pool->x.shape(), pool->options)) {
      ++pools;
    } else if (backward == nullptr || !same(backward->x, relu->y) || backward->b || !backward->has_relu ||
               detail::overlap(backward->dz, relu->x)) {
      return false;
    }
  }
  if (pools == 0) return false;
  for (const std::size_t k : *readers) {
    if (const auto* const pool = detail::op_of<ops::AvgPool>(ops[k])) {
      queue(ops::ActivationAvgPool{pool->y, relu->x.reshape(pool->x.shape()), bias, true, pool->options}, stream);
    } else {
      ops::AvgPoolActivationBackward backward = *detail::op_of<ops::AvgPoolActivationBackward>(ops[k]);
      backward.x = relu->x.reshape(backward.x.shape());
      backward.b = bias;
      queue(backward, stream);
    }
    ops.replace(k);
  }
  if (bias) {
    ops::Conv2d without_bias = *detail::op_of<ops::Conv2d>(ops[*convolution]);
    without_bias.b = {};
    queue(without_bias, stream);
    ops.replace(*convolution);
  }
  ops.drop(i);
  return true;
}

}  // namespace giro::rules
