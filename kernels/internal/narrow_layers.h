#pragma once

#include "kernels/internal/ops.h"
#include "kernels/pointwise/expression.h"

// Dense layers with so few outputs that a kernel of a GPU computes all of them for a row at once, which takes less time
// than a library's product. The weights stay in the nearest cache, and a row has a term for each thread.
namespace giro {

// Whether the op computes y of such a layer, or dx.
bool is_expression(const ops::Dense& op);
bool is_expression(const ops::DenseBackward& op);

// y, or dx alone.
pointwise::Expression as_expression(const ops::Dense& op);
pointwise::Expression as_expression(const ops::DenseBackward& op);

}  // namespace giro
