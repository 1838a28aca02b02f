#include "kernels/cuda/expression.h"
#include "kernels/internal/publish_op.h"

namespace giro::cuda {

void run(const ops::RunAndPublish& op, const Stream& stream) { run_with_tail(op.expression, &op.row, stream); }

// After an empty expression.
void run(const ops::Publish& op, const Stream& stream) { run_with_tail({}, &op, stream); }

}  // namespace giro::cuda
