#include <giro/kernels/dense.h>

#include "kernels/checks.h"
#include "kernels/ops.h"

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
  checks::fits_if_given(op, {"b", b}, {"w", w}, {w.shape()[1]});
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
  checks::fits_if_given(op, {"dx", dx}, {"dz", dz}, x.shape());
  checks::fits_if_given(op, {"dw", dw}, {"dz", dz}, w.shape());
  checks::fits_if_given(op, {"db", db}, {"dz", dz}, {w.shape()[1]});
  queue(ops::DenseBackward{dx, dw, db, dz, dw ? x : Tensor(), dx ? w : Tensor(), math}, stream);
}

}  // namespace giro
