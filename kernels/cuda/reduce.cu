#include "kernels/cuda/sum_rows.cuh"
#include "kernels/internal/backends.h"

namespace giro::cuda {

void sum_rows(const Tensor& out, const Tensor& x, const Stream& stream) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  functors::with_storage(x.dtype(), [&]<class T>(functors::Type<T>) {
    sum_rows_of(functors::Output(out), rows, columns, Elements<T>{x.data<T>()}, stream);
  });
}

}  // namespace giro::cuda
