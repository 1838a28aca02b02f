#include "kernels/cuda/expression_source.h"

#include "kernels/cuda/expression_writer.h"

namespace giro::cuda {

ExpressionSource source_of(const pointwise::Expression& expression, const ops::Publish* tail) {
  return ExpressionWriter(expression, tail).write();
}

}  // namespace giro::cuda
