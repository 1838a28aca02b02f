#include "kernels/narrow_layers.h"

#include <utility>

#include "kernels/expr/term.h"

namespace giro {

using expr::Layout;
using expr::Term;

namespace {

bool is_narrow(const Tensor& w) {
  // With more outputs, nothing else could join: an expression's reads are limited (kernels/expr/fusion.cpp).
  constexpr std::int64_t kMinOutputs = 2, kMaxOutputs = 10, kMinInputs = 128;
  constexpr std::size_t kMaxBytes = 64 << 10;
  return w && w.shape()[1] >= kMinOutputs && w.shape()[1] <= kMaxOutputs && w.shape()[0] >= kMinInputs &&
         w.bytes() <= kMaxBytes;
}

}  // namespace

bool is_expression(const ops::Dense& op) { return is_narrow(op.w) && op.y.count() > 0; }
bool is_expression(const ops::DenseBackward& op) { return is_narrow(op.w) && op.dx && op.dx.count() > 0; }

// The space is (rows, inputs); each row sums over its inputs.
expr::Expression as_expression(const ops::Dense& op) {
  const std::int64_t inputs = op.w.shape()[0], outputs = op.w.shape()[1];
  expr::Builder code(op.x.shape(), 1);
  const auto read = [&](const Tensor& tensor, const Layout& layout) {
    return code.read(tensor, layout).cast(DType::f32);
  };
  const Term x = read(op.x, {.strides = {inputs, 1}});
  for (std::int64_t c = 0; c < outputs; ++c) {
    Term y = (x * read(op.w, {.offset = c, .strides = {0, outputs}})).sum();
    if (op.b) y = y + read(op.b, {.offset = c});
    y.cast(op.y.dtype()).write(op.y, {.offset = c, .strides = {outputs}});
  }
  return std::move(code).take();
}

expr::Expression as_expression(const ops::DenseBackward& op) {
  const std::int64_t inputs = op.w.shape()[0], outputs = op.w.shape()[1];
  expr::Builder code(op.dx.shape(), 0);
  const auto product = [&](std::int64_t c) {
    return code.read(op.dz, {.offset = c, .strides = {outputs, 0}}).cast(DType::f32) *
           code.read(op.w, {.offset = c, .strides = {0, outputs}}).cast(DType::f32);
  };
  Term dx = product(0);
  for (std::int64_t c = 1; c < outputs; ++c) dx = dx + product(c);
  dx.cast(op.dx.dtype()).write(op.dx, {.strides = {inputs, 1}});
  return std::move(code).take();
}

}  // namespace giro
