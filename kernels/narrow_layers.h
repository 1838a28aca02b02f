#pragma once

#include "kernels/expr/expression.h"
#include "kernels/ops.h"

// Dense layers with so few outputs that a GPU kernel computes all of a row's outputs at once, faster than a library's
// product. The weights stay in the L1 cache, and a row has a term for each thread.
namespace giro {

// Whether the op computes y or dx of such a layer.
bool is_expression(const ops::Dense& op);
bool is_expression(const ops::DenseBackward& op);

// y, or dx alone.
expr::Expression as_expression(const ops::Dense& op);
expr::Expression as_expression(const ops::DenseBackward& op);

}  // namespace giro
