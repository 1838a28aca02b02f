#pragma once

#include <giro/kernels/activation.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cuda {

// y = f(y + b) in one pass, b along the last axis of y, of its dtype or f32, or empty; f is none or relu.
void bias_activation(const Tensor& y, const Tensor& b, Activation f, const Stream& stream);

}  // namespace giro::cuda
