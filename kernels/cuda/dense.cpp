#include "kernels/cuda/bias.h"
#include "kernels/cuda/expression.h"
#include "kernels/cuda/matmul.h"
#include "kernels/elementwise.h"
#include "kernels/narrow_layers.h"
#include "kernels/ops.h"

namespace giro::cuda {
namespace {

void matmul(const Matmul& product, const Stream& stream) {
  if (try_matmul(product, stream)) return;
  if (!product.adds) return tiled_matmul(product, stream);
  const Buffer memory = stream.allocate(product.d.bytes());
  Matmul term = product;
  term.d = Tensor(memory.data(), product.d.dtype(), product.d.shape(), product.d.device());
  tiled_matmul(term, stream);
  ops::add(product.d, product.d, term.d, stream);
}

void fill_zero(const Tensor& tensor, const Stream& stream) { stream.fill(tensor.raw(), 0, tensor.bytes()); }

// dw^T = dz^T x; db comes from the same pass over dz. Either may be empty.
void weight_gradient(const Tensor& dw, bool adds, const Tensor& db, const Tensor& dz, const Tensor& x, MathMode math,
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
  if (!db_done) cuda::run(ops::SumRows{db, dz}, stream);
}

}  // namespace

void run(const ops::Dense& op, const Stream& stream) {
  if (op.y.count() == 0) return;
  if (is_expression(op)) return cuda::run(as_expression(op), stream);
  // y^T = w^T x^T
  Matmul product{.m = op.w.shape()[1],
                 .n = op.x.shape()[0],
                 .k = op.w.shape()[0],
                 .a = op.w,
                 .b = op.x,
                 .d = op.y,
                 .math = op.math};
  if (product.k == 0) {
    fill_zero(op.y, stream);
    add_bias(op.y, op.b, stream);
  } else if (!op.b) {
    matmul(product, stream);
  } else {
    Matmul with_bias = product;
    with_bias.epilogue = CUBLASLT_EPILOGUE_BIAS;
    with_bias.bias = op.b;
    if (!try_matmul(with_bias, stream)) {
      matmul(product, stream);
      add_bias(op.y, op.b, stream);
    }
  }
}

void run(const ops::DenseBackward& op, const Stream& stream) {
  const std::int64_t batch = op.dz.shape()[0], outputs = op.dz.shape()[1];
  weight_gradient(op.dw, false, op.db, op.dz, op.x, op.math, stream);
  if (op.dx && op.dx.count() > 0) {
    if (outputs == 0) {
      fill_zero(op.dx, stream);
    } else if (is_expression(op)) {
      cuda::run(as_expression(op), stream);
    } else {
      // dx^T = w dz^T
      matmul({.m = op.w.shape()[0],
              .n = batch,
              .k = outputs,
              .transpose_a = true,
              .a = op.w,
              .b = op.dz,
              .d = op.dx,
              .math = op.math},
             stream);
    }
  }
}

void run(const ops::DenseBackwardAdd& op, const Stream& stream) {
  weight_gradient(op.dw, true, op.db, op.dz, op.x, op.math, stream);
}

}  // namespace giro::cuda
