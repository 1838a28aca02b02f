#include "kernels/cuda/expression_source.h"

#include "kernels/cuda/expression_writer.h"

namespace giro::cuda {

ExpressionSource source_of(const pointwise::Expression& expression) { return ExpressionWriter(expression).write(); }

}  // namespace giro::cuda
