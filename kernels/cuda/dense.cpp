#include <giro/kernels/dense.h>
#include <giro/kernels/elementwise.h>

#include <utility>

#include "kernels/cuda/bias.h"
#include "kernels/cuda/matmul.h"
#include "kernels/internal/backends.h"

namespace giro::cuda {
namespace {

void matmul(const Matmul& product, const Stream& stream) {
  if (try_matmul(product, stream)) return;
  if (!product.adds) return tiled_matmul(product, stream);
  const Buffer memory = stream.allocate(product.d.bytes());
  Matmul term = product;
  term.d = Tensor(memory.data(), product.d.dtype(), product.d.shape(), product.d.device());
  tiled_matmul(term, stream);
  giro::add(product.d, product.d, term.d, stream);
}

void fill_zero(const Tensor& tensor, const Stream& stream) { stream.fill(tensor.raw(), 0, tensor.bytes()); }

// dw^T = dz^T x, and db falls out of the same pass over dz; either may be empty.
void weight_gradient(const Tensor& dw, bool adds, const Tensor& db, const Tensor& dz, const Tensor& x, Math math,
                     const Stream& stream) {
  bool db_done = !db;
  if (dw && dw.count() > 0) {
    const Matmul product{.m = dz.shape()[1],
                         .n = x.shape()[1],
                         .k = dz.shape()[0],
                         .transpose_b = true,
                         .a = dz,
                         .b = x,
                         .d = dw,
                         .math = math,
                         .adds = adds};
    if (product.k == 0) {
      if (!adds) fill_zero(dw, stream);
    } else {
      if (db) {
        Matmul with_db = product;
        with_db.epilogue = CUBLASLT_EPILOGUE_BGRADA;
        with_db.bias = db;
        db_done = try_matmul(with_db, stream);
      }
      if (!db || !db_done) matmul(product, stream);
    }
  }
  if (!db_done) cuda::sum_rows(db, dz, stream);
}

}  // namespace

void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, Math math, const Stream& stream) {
  if (y.count() == 0) return;
  // y^T = w^T x^T
  Matmul product{.m = w.shape()[1], .n = x.shape()[0], .k = w.shape()[0], .a = w, .b = x, .d = y, .math = math};
  if (product.k == 0) {
    fill_zero(y, stream);
    add_bias(y, b, stream);
  } else if (!b) {
    matmul(product, stream);
  } else {
    Matmul with_bias = product;
    with_bias.epilogue = CUBLASLT_EPILOGUE_BIAS;
    with_bias.bias = b;
    if (!try_matmul(with_bias, stream)) {
      matmul(product, stream);
      add_bias(y, b, stream);
    }
  }
}

void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                    const Tensor& w, Math math, const Stream& stream) {
  const std::int64_t batch = dz.shape()[0], outputs = dz.shape()[1];
  weight_gradient(dw, false, db, dz, x, math, stream);
  if (dx && dx.count() > 0) {
    if (outputs == 0) {
      fill_zero(dx, stream);
    } else {
      // dx^T = w dz^T
      matmul({.m = w.shape()[0], .n = batch, .k = outputs, .transpose_a = true, .a = w, .b = dz, .d = dx, .math = math},
             stream);
    }
  }
}

void dense_backward_add(const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x, Math math,
                        const Stream& stream) {
  weight_gradient(dw, true, db, dz, x, math, stream);
}

namespace {

// The bytes as floats, for what cannot read bytes.
std::pair<Buffer, Tensor> scaled(const Tensor& x, double factor, const Stream& stream) {
  Buffer memory = stream.allocate(static_cast<std::size_t>(x.count()) * sizeof(float));
  const Tensor floats(memory.data(), DType::f32, x.shape(), x.device());
  giro::scale(floats, x, factor, stream);
  return {std::move(memory), floats};
}

}  // namespace

void dense_of_bytes(const Tensor& y, const Tensor& x, double factor, const Tensor& w, const Tensor& b,
                    const Stream& stream) {
  const auto [memory, floats] = scaled(x, factor, stream);
  cuda::dense(y, floats, w, b, Math::f32, stream);
}

void dense_of_bytes_backward(const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x, double factor,
                             const Stream& stream) {
  const auto [memory, floats] = scaled(x, factor, stream);
  cuda::dense_backward(Tensor(), dw, db, dz, floats, Tensor(), Math::f32, stream);
}

}  // namespace giro::cuda
