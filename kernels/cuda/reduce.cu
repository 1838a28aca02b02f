#include "kernels/cuda/sum_rows.cuh"
#include "kernels/internal/ops.h"

namespace giro::cuda {

void run(const ops::SumRows& op, const Stream& stream) {
  const std::int64_t rows = op.x.shape()[0], columns = op.x.shape()[1];
  functors::with_storage(op.x.dtype(), [&]<class T>(functors::Type<T>) {
    sum_rows_of(functors::Output(op.out), rows, columns, Elements<T>{op.x.data<T>()}, stream);
  });
}

}  // namespace giro::cuda
