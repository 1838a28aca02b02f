#include "kernels/cpu/matmul.h"
#include "kernels/cpu/narrow_dense.h"
#include "kernels/elementwise.h"
#include "kernels/ops.h"
#include "runtime/temporary.h"

namespace giro::cpu {
namespace {

// Whether narrow_dense.h, which is for f32, computes a layer with these outputs or output gradients.
bool runs_narrow(const Tensor& outputs) { return outputs.dtype() == DType::f32 && narrow::can_run(outputs.shape()[1]); }

}  // namespace

void run(const ops::Dense& op, const Stream& stream) {
  if (runs_narrow(op.y)) {
    narrow::dense(op.y, op.x, op.factor, op.w, op.b, stream);
  } else {
    matmul(op.y, {op.x}, {op.w}, op.b, stream);
  }
}

void run(const ops::DenseBackward& op, const Stream& stream) {
  if (op.dx) matmul(op.dx, {op.dz}, {op.w, true}, Tensor(), stream);
  if (op.dw && runs_narrow(op.dz)) {
    narrow::weight_gradient(op.dw, op.dz, op.x, op.factor, stream);
  } else if (op.dw) {
    matmul(op.dw, {op.x, true}, {op.dz}, Tensor(), stream);
  }
  if (op.db) cpu::run(ops::SumRows{op.db, op.dz}, stream);
}

void run(const ops::DenseBackwardAdd& op, const Stream& stream) {
  const Temporary term(DType::f32, op.dw.shape(), stream);
  cpu::run(ops::DenseBackward{.dw = term, .db = op.db, .dz = op.dz, .x = op.x, .math = op.math}, stream);
  ops::add(op.dw, op.dw, term, stream);
}

}  // namespace giro::cpu
