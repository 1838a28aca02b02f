#include "kernels/cuda/matmul.h"
#include "kernels/cuda/tiled_product.cuh"

namespace giro::cuda {

// Row-major, d^T (n, m): its rows are op(b)'s columns, its columns op(a)'s rows.
void tiled_matmul(const Matmul& p, const Stream& stream) {
  const Product product{.out = p.d, .rows = p.n, .columns = p.m, .terms = p.k, .slices = p.batch};
  host_device::with_storage(p.a.dtype(), [&]<class T>(host_device::Type<T>) {
    const auto with_rows = [&](const auto& rows) {
      if (p.transpose_a) {
        tiled_product(product, rows, Matrix<true, T>(p.a, p.k, p.a_stride), stream);
      } else {
        tiled_product(product, rows, Matrix<false, T>(p.a, p.m, p.a_stride), stream);
      }
    };
    if (p.transpose_b) {
      with_rows(Matrix<false, T>(p.b, p.n, p.b_stride));
    } else {
      with_rows(Matrix<true, T>(p.b, p.k, p.b_stride));
    }
  });
}

}  // namespace giro::cuda
