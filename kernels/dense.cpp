#include <giro/kernels/dense.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/checks.h"
#include "kernels/internal/ops.h"

namespace giro {

namespace {

void check(std::string_view op, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b,
           const Stream& stream) {
  checks::on_device(op, {{"y", y}, {"x", x}, {"w", w}, {"b", b}}, stream);
  checks::is_storage(op, {"w", w});
  checks::same_dtype(op, {"y", y}, {"w", w});
  checks::same_dtype(op, {"x", x}, {"w", w});
  for (const checks::Argument& argument : {checks::Argument{"y", y}, {"x", x}, {"w", w}}) {
    checks::has_rank(op, argument, 2);
  }
  checks::has_shape(op, {"w", w}, {x.shape()[1], w.shape()[1]});
  checks::has_shape(op, {"y", y}, {x.shape()[0], w.shape()[1]});
  if (b) {
    checks::is_f32_or_as(op, {"b", b}, {"w", w});
    checks::has_shape(op, {"b", b}, {w.shape()[1]});
  }
}

void check_gradient(std::string_view op, const checks::Argument& out, const Tensor& dz, const Shape& shape) {
  if (!out.tensor) return;
  checks::is_f32_or_as(op, out, {"dz", dz});
  checks::has_shape(op, out, shape);
}

}  // namespace

void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, MathMode math, const Stream& stream) {
  check("dense", y, x, w, b, stream);
  queue(ops::Dense{y, x, w, b, math}, stream);
}

void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                    const Tensor& w, MathMode math, const Stream& stream) {
  constexpr std::string_view op = "dense_backward";
  checks::on_device(op, {{"dx", dx}, {"dw", dw}, {"db", db}, {"dz", dz}, {"x", x}, {"w", w}}, stream);
  checks::is_storage(op, {"w", w});
  for (const checks::Argument& argument : {checks::Argument{"dz", dz}, {"x", x}, {"w", w}}) {
    checks::same_dtype(op, argument, {"w", w});
    checks::has_rank(op, argument, 2);
  }
  checks::has_shape(op, {"w", w}, {x.shape()[1], w.shape()[1]});
  checks::has_shape(op, {"dz", dz}, {x.shape()[0], w.shape()[1]});
  if (dx) checks::same_dtype(op, {"dx", dx}, {"x", x});
  check_gradient(op, {"dx", dx}, dz, x.shape());
  check_gradient(op, {"dw", dw}, dz, w.shape());
  check_gradient(op, {"db", db}, dz, {w.shape()[1]});
  queue(ops::DenseBackward{dx, dw, db, dz, dw ? x : Tensor(), dx ? w : Tensor(), math}, stream);
}

}  // namespace giro
