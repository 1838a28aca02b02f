#include "kernels/cuda/as_expressions.h"
#include "kernels/cuda/expression.h"
#include "kernels/internal/ops.h"

namespace giro::cuda {

void run(const ops::SumRows& op, const Stream& stream) { cuda::run(as_expression(op), stream); }

}  // namespace giro::cuda
