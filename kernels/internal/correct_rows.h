#pragma once

#include <giro/runtime/tensor.h>

#include "kernels/pointwise/expression.h"

namespace giro {

// The expression of the op `correct` (giro/kernels/accuracy.h).
pointwise::Expression correct_rows(const Tensor& out, const Tensor& logits, const Tensor& labels);

}  // namespace giro
