#pragma once

#include "kernels/internal/ops.h"
#include "kernels/pointwise/expression.h"

namespace giro {

// Whether a dense layer has so few outputs that a kernel of a GPU computes all of them for a row at once, which takes
// less time than a library's product. The weights stay in the nearest cache, and a row has a term for each thread.
bool is_narrow(const Tensor& w);

// For narrow layers. Of the gradients dx alone.
pointwise::Expression as_expression(const ops::Dense& op);
pointwise::Expression as_expression(const ops::DenseBackward& op);

}  // namespace giro
