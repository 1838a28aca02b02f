#pragma once

#include <giro/kernels/nn/elementwise.h>

// nn::relu and its gradient on tensors.
namespace giro::test {

inline void relu(const Tensor& y, const Tensor& x, const Stream& stream) {
  copy(y, nn::relu(nn::Var(x, stream)).value(), stream);
}

inline void relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& y, const Stream& stream) {
  copy(dx, nn::where(nn::Var(y, stream) > 0, nn::Var(dy, stream), 0).value(), stream);
}

}  // namespace giro::test
