#include "kernels/internal/ops.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// A 16-bit convolution applies the relu that alone reads its result. cuDNN does both in one plan, if there is a bias.
// Its relu clips at the largest f32, which rounds to infinity in 16 bits, but would replace infinity in f32.
bool relu_in_convolution(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const convolution = detail::op_of<ops::Conv2d>(ops[i]);
  if (convolution == nullptr || convolution->has_relu || size_of(convolution->y.dtype()) != 2 || !convolution->b ||
      convolution->b.dtype() != convolution->y.dtype()) {
    return false;
  }
  const auto reader = ops.only_reader(i, convolution->y);
  const std::optional<Relu> relu = reader ? relu_of(ops[*reader]) : std::nullopt;
  if (!relu || !same(relu->x, convolution->y) || relu->y.dtype() != convolution->y.dtype() ||
      !ops.can_run_late(i, *reader)) {
    return false;
  }
  ops::Conv2d both = *convolution;
  both.y = relu->y.reshape(convolution->y.shape());
  both.has_relu = true;
  queue(both, stream);
  ops.replace(*reader, {i});
  return true;
}

}  // namespace giro::rules
