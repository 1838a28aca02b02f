#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cuda {

// y += b, along the last axis of y; b of its dtype or f32, or empty.
void add_bias(const Tensor& y, const Tensor& b, const Stream& stream);

}  // namespace giro::cuda
