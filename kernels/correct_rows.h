#pragma once

#include <giro/runtime/tensor.h>

#include "kernels/expr/expression.h"

namespace giro {

// The expression of the op `correct`: for each row, 1 where the largest logit (the first, if tied) is at the label,
// else 0. A row with a NaN is wrong.
expr::Expression correct_rows(const Tensor& out, const Tensor& logits, const Tensor& labels);

}  // namespace giro
