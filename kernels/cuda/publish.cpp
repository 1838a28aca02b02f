#include "kernels/cuda/expression.h"
#include "kernels/cuda/row_tail.h"
#include "kernels/internal/backends.h"

namespace giro::cuda {

void run_and_publish(const pointwise::Expression& expression, const RowRing& ring, const Tensor& row,
                     const RowPart& part, const Stream& stream) {
  const RowTail tail{ring, row, part};
  run_with_tail(expression, &tail, stream);
}

// After nothing.
void publish_columns(const RowRing& ring, const Tensor& row, const RowPart& part, const Stream& stream) {
  run_and_publish({}, ring, row, part, stream);
}

}  // namespace giro::cuda
