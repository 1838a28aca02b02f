#pragma once

#include "kernels/internal/narrow_layers.h"
#include "kernels/internal/ops.h"
#include "kernels/pointwise/expression.h"

// Ops that run as expressions on a GPU and have their own loops on the CPU.
namespace giro::cuda {

using giro::as_expression;  // for narrow layers

pointwise::Expression as_expression(const ops::AvgPool& op);
pointwise::Expression as_expression(const ops::MaxPool& op);
// For windows that tile x.
pointwise::Expression as_expression(const ops::AvgPoolBackward& op);
pointwise::Expression as_expression(const ops::MaxPoolBackward& op);
pointwise::Expression as_expression(const ops::SumRows& op);

}  // namespace giro::cuda
