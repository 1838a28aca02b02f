#include "kernels/cuda/matmul.h"
#include "kernels/cuda/tiled_product.cuh"

namespace giro::cuda {

void tiled_matmul(const Matmul& p, const Stream& stream) {
  const Product product{.out = p.out, .rows = p.rows(), .columns = p.columns(), .terms = p.terms(), .slices = p.batch};
  host_device::with_storage(p.a.dtype(), [&]<class T>(host_device::Type<T>) {
    const auto with_rows = [&](const auto& rows) {
      if (p.transpose_b) {
        tiled_product(product, rows, Matrix<true, T>(p.b, p.terms(), p.b_stride), stream);
      } else {
        tiled_product(product, rows, Matrix<false, T>(p.b, p.columns(), p.b_stride), stream);
      }
    };
    if (p.transpose_a) {
      with_rows(Matrix<false, T>(p.a, p.rows(), p.a_stride));
    } else {
      with_rows(Matrix<true, T>(p.a, p.terms(), p.a_stride));
    }
  });
}

}  // namespace giro::cuda
