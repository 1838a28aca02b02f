#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cuda {

// y += b along the last axis of y. b has y's dtype or f32, or is empty.
void add_bias(const Tensor& y, const Tensor& b, const Stream& stream);

}  // namespace giro::cuda
