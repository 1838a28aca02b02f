#include "kernels/cuda/matmul.h"
#include "kernels/elementwise.h"
#include "kernels/expr/expression_op.h"
#include "kernels/narrow_layers.h"
#include "kernels/ops.h"
#include "runtime/temporary.h"

namespace giro::cuda {
namespace {

void matmul(const Matmul& product, const Stream& stream) {
  if (try_matmul(product, stream)) return;
  if (!product.adds) return tiled_matmul(product, stream);
  const Temporary term(product.out.dtype(), product.out.shape(), stream);
  Matmul product_alone = product;
  product_alone.out = term;
  tiled_matmul(product_alone, stream);
  ops::add(product.out, product.out, term, stream);
}

// The product with an epilogue for `bias`. Returns false and queues nothing if cuBLASLt does not compute it.
bool try_with_bias(Matmul product, cublasLtEpilogue_t epilogue, const Tensor& bias, const Stream& stream) {
  product.epilogue = epilogue;
  product.bias = bias;
  return try_matmul(product, stream);
}

void fill_zero(const Tensor& tensor, const Stream& stream) { stream.fill(tensor.raw(), 0, tensor.bytes()); }

// dw = x^T dz; db comes from the same pass over dz. Either may be empty.
void weight_gradient(const Tensor& dw, bool adds, const Tensor& db, const Tensor& dz, const Tensor& x, MathMode math,
                     const Stream& stream) {
  bool has_db = false;
  if (dw && dw.count() > 0) {
    const Matmul product{.out = dw, .a = x, .b = dz, .transpose_a = true, .math = math, .adds = adds};
    if (product.terms() == 0) {
      if (!adds) fill_zero(dw, stream);
    } else {
      has_db = db && try_with_bias(product, CUBLASLT_EPILOGUE_BGRADA, db, stream);
      if (!has_db) matmul(product, stream);
    }
  }
  if (db && !has_db) cuda::run(ops::SumRows{db, dz}, stream);
}

}  // namespace

void run(const ops::Dense& op, const Stream& stream) {
  if (op.y.count() == 0) return;
  if (is_expression(op)) return cuda::run(as_expression(op), stream);
  const Matmul product{.out = op.y, .a = op.x, .b = op.w, .math = op.math};
  if (product.terms() > 0 && op.b && try_with_bias(product, CUBLASLT_EPILOGUE_BIAS, op.b, stream)) return;
  if (product.terms() > 0) {
    matmul(product, stream);
  } else {
    fill_zero(op.y, stream);
  }
  if (op.b) ops::add_bias(op.y, op.b, stream);
}

void run(const ops::DenseBackward& op, const Stream& stream) {
  weight_gradient(op.dw, false, op.db, op.dz, op.x, op.math, stream);
  if (op.dx && op.dx.count() > 0) {
    if (op.dz.shape()[1] == 0) {
      fill_zero(op.dx, stream);
    } else if (is_expression(op)) {
      cuda::run(as_expression(op), stream);
    } else {
      matmul({.out = op.dx, .a = op.dz, .b = op.w, .transpose_b = true, .math = op.math}, stream);
    }
  }
}

void run(const ops::DenseBackwardAdd& op, const Stream& stream) {
  weight_gradient(op.dw, true, op.db, op.dz, op.x, op.math, stream);
}

}  // namespace giro::cuda
