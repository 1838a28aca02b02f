#pragma once

#include <giro/runtime/tensor.h>

#include "kernels/expr/expression.h"

namespace giro {

// The expression of the op `correct` (giro/kernels/accuracy.h).
expr::Expression correct_rows(const Tensor& out, const Tensor& logits, const Tensor& labels);

}  // namespace giro
