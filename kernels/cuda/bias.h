#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cuda {

// y += b along the last axis of y, and then y = relu(y) if `relu`. b has y's dtype or f32, or is empty.
void add_bias(const Tensor& y, const Tensor& b, const Stream& stream, bool relu = false);

}  // namespace giro::cuda
