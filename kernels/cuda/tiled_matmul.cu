#include "kernels/cuda/matmul.h"
#include "kernels/cuda/tiled_product.cuh"

namespace giro::cuda {

// Row-major, d^T (n, m): its rows are op(b)'s columns, its columns op(a)'s rows.
void tiled_matmul(const Matmul& p, const Stream& stream) {
  functors::with_storage(p.a.dtype(), [&]<class T>(functors::Type<T>) {
    const T *a = p.a.data<T>(), *b = p.b.data<T>();
    const auto with_rows = [&](const auto& rows) {
      if (p.transpose_a) {
        tiled_product(p.d, rows, Matrix<true, T>{a, p.m, p.k}, p.k, stream);
      } else {
        tiled_product(p.d, rows, Matrix<false, T>{a, p.m, p.m}, p.k, stream);
      }
    };
    if (p.transpose_b) {
      with_rows(Matrix<false, T>{b, p.n, p.n});
    } else {
      with_rows(Matrix<true, T>{b, p.n, p.k});
    }
  });
}

}  // namespace giro::cuda
