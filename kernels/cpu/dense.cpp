#include <cstdint>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/narrow_dense.h"
#include "kernels/elementwise.h"
#include "kernels/ops.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu {
namespace {

// Whether narrow_dense.h, which is for f32, computes a layer with these outputs or output gradients.
bool runs_narrow(const Tensor& outputs) { return outputs.dtype() == DType::f32 && narrow::can_run(outputs.shape()[1]); }

// x is f32, or bytes to be multiplied by `factor`.
narrow::Input input_of(const Tensor& x, double factor) {
  narrow::Input input{nullptr, nullptr, static_cast<float>(factor), x.shape()[0], x.shape()[1]};
  if (x.dtype() == DType::u8) {
    input.bytes = x.data<std::uint8_t>();
  } else {
    input.floats = x.data<float>();
  }
  return input;
}

void narrow_dense(const Tensor& y, const narrow::Input& x, const Tensor& w, const Tensor& b, const Stream& stream) {
  const std::int64_t outputs = w.shape()[1];
  const Buffer workspace = stream.allocate(narrow::workspace(x.rows, x.inputs, outputs) * sizeof(float));
  submit(stream, [x, outputs, y = y.data<float>(), w = w.data<float>(), b = b ? b.data<float>() : nullptr,
                  space = static_cast<float*>(workspace.data())] { narrow::dense(y, x, w, b, outputs, space); });
}

void narrow_gradient(const Tensor& dw, const Tensor& dz, const narrow::Input& x, const Stream& stream) {
  const std::int64_t outputs = dw.shape()[1];
  const Buffer workspace = stream.allocate(narrow::workspace(x.rows, x.inputs, outputs) * sizeof(float));
  submit(stream,
         [x, outputs, dw = dw.data<float>(), dz = dz.data<float>(), space = static_cast<float*>(workspace.data())] {
           narrow::weight_gradient(dw, dz, x, outputs, space);
         });
}

}  // namespace

void run(const ops::Dense& op, const Stream& stream) {
  if (runs_narrow(op.y)) {
    narrow_dense(op.y, input_of(op.x, op.factor), op.w, op.b, stream);
  } else {
    matmul(op.y, {op.x}, {op.w}, op.b, stream);
  }
}

void run(const ops::DenseBackward& op, const Stream& stream) {
  if (op.dx) matmul(op.dx, {op.dz}, {op.w, true}, Tensor(), stream);
  if (op.dw && runs_narrow(op.dz)) {
    narrow_gradient(op.dw, op.dz, input_of(op.x, op.factor), stream);
  } else if (op.dw) {
    matmul(op.dw, {op.x, true}, {op.dz}, Tensor(), stream);
  }
  if (op.db) cpu::run(ops::SumRows{op.db, op.dz}, stream);
}

void run(const ops::DenseBackwardAdd& op, const Stream& stream) {
  const Buffer memory = stream.allocate(op.dw.bytes());
  const Tensor term(memory.data(), DType::f32, op.dw.shape(), op.dw.device());
  cpu::run(ops::DenseBackward{.dw = term, .db = op.db, .dz = op.dz, .x = op.x, .math = op.math}, stream);
  ops::add(op.dw, op.dw, term, stream);
}

}  // namespace giro::cpu
