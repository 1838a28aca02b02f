#include <giro/kernels/conv2d.h>
#include <giro/kernels/pool.h>

#include "kernels/internal/rewrite/patterns.h"
#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {
namespace {

// The convolution before op `i` whose result x is, if nothing but that op reads it.
std::optional<std::size_t> convolution_of(const OpList& ops, const Tensor& x, std::size_t i) {
  for (std::size_t k = i; k-- > 0;) {
    const auto* const convolution = GIRO_ARGUMENTS(ops[k], conv2d);
    if (convolution != nullptr && same(std::get<0>(*convolution), x)) {
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
  if (convolution && stream.device().is_cuda()) bias = std::get<3>(*GIRO_ARGUMENTS(ops[*convolution], conv2d));
  if (bias && bias.dtype() != relu->x.dtype()) bias = Tensor();
  std::size_t pools = 0;
  for (const std::size_t k : *readers) {
    const auto* const pool = GIRO_ARGUMENTS(ops[k], avg_pool);
    const auto* const backward = GIRO_ARGUMENTS(ops[k], avg_pool_activation_backward);
    if (!ops.stays(relu->x, i, k) || (bias && !ops.stays(bias, *convolution, k))) return false;
    if (pool != nullptr && same(std::get<1>(*pool), relu->y) &&
        pool_windows_tile(std::get<1>(*pool).shape(), std::get<2>(*pool))) {
      ++pools;
    } else if (backward == nullptr || !same(std::get<3>(*backward), relu->y) || std::get<4>(*backward) ||
               std::get<5>(*backward) != Activation::relu || detail::overlap(std::get<0>(*backward), relu->x)) {
      return false;
    }
  }
  if (pools == 0) return false;
  for (const std::size_t k : *readers) {
    if (const auto* const pool = GIRO_ARGUMENTS(ops[k], avg_pool)) {
      const auto [pooled, from, window] = *pool;
      activation_avg_pool(pooled, relu->x.reshape(from.shape()), bias, Activation::relu, window, stream);
    } else {
      const auto [dz, db, dy, from, none, f, window] = *GIRO_ARGUMENTS(ops[k], avg_pool_activation_backward);
      avg_pool_activation_backward(dz, db, dy, relu->x.reshape(from.shape()), bias, f, window, stream);
    }
    ops.replace(k);
  }
  if (bias) {
    const auto [y, x, w, b, options, math] = *GIRO_ARGUMENTS(ops[*convolution], conv2d);
    giro::conv2d(y, x, w, Tensor(), options, math, stream);
    ops.replace(*convolution);
  }
  ops.drop(i);
  return true;
}

}  // namespace giro::rewrite
