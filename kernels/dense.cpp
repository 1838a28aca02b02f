#include <giro/kernels/dense.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {

void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, Activation f, const Stream& stream) {
  if (needs_input(f)) {
    throw Error(ErrorCode::unsupported, "dense: gelu is not fused, its gradient needs x w + b");
  }
  checks::on_device("dense", {{"y", y}, {"x", x}, {"w", w}, {"b", b}}, stream);
  for (const checks::Argument& argument : {checks::Argument{"y", y}, {"x", x}, {"w", w}}) {
    checks::has_dtype("dense", argument, DType::f32);
    checks::has_rank("dense", argument, 2);
  }
  checks::has_shape("dense", {"w", w}, {x.shape()[1], w.shape()[1]});
  checks::has_shape("dense", {"y", y}, {x.shape()[0], w.shape()[1]});
  if (b) {
    checks::has_dtype("dense", {"b", b}, DType::f32);
    checks::has_shape("dense", {"b", b}, {w.shape()[1]});
  }
  GIRO_QUEUE(stream, dense, (y, x, w, b, f), {y}, {x, w, b},
             2 * elements(x) * static_cast<double>(w.shape()[1]) + (b ? elements(y) : 0));
}

void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                    const Tensor& w, const Stream& stream) {
  constexpr std::string_view op = "dense_backward";
  checks::on_device(op, {{"dx", dx}, {"dw", dw}, {"db", db}, {"dz", dz}, {"x", x}, {"w", w}}, stream);
  for (const checks::Argument& argument : {checks::Argument{"dz", dz}, {"x", x}, {"w", w}}) {
    checks::has_dtype(op, argument, DType::f32);
    checks::has_rank(op, argument, 2);
  }
  checks::has_shape(op, {"w", w}, {x.shape()[1], w.shape()[1]});
  checks::has_shape(op, {"dz", dz}, {x.shape()[0], w.shape()[1]});
  const auto check_output = [&](const checks::Argument& out, const Shape& shape) {
    if (!out.tensor) return;
    checks::has_dtype(op, out, DType::f32);
    checks::has_shape(op, out, shape);
  };
  check_output({"dx", dx}, x.shape());
  check_output({"dw", dw}, w.shape());
  check_output({"db", db}, {w.shape()[1]});
  GIRO_QUEUE(stream, dense_backward, (dx, dw, db, dz, x, w), {dx, dw, db}, {dz, x, w},
             ((dx ? 2 : 0) + (dw ? 2 : 0)) * elements(x) * static_cast<double>(w.shape()[1]) + (db ? elements(dz) : 0));
}

}  // namespace giro
