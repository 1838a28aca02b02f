#include <giro/kernels/dense.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {

namespace {

void check(std::string_view op, const Tensor& y, const Tensor& x, DType x_dtype, const Tensor& w, const Tensor& b,
           Activation f, const Stream& stream) {
  if (needs_input(f)) {
    throw Error(ErrorCode::unsupported, fmt::format("{}: gelu is not fused, its gradient needs x w + b", op));
  }
  checks::on_device(op, {{"y", y}, {"x", x}, {"w", w}, {"b", b}}, stream);
  checks::has_dtype(op, {"y", y}, DType::f32);
  checks::has_dtype(op, {"x", x}, x_dtype);
  checks::has_dtype(op, {"w", w}, DType::f32);
  for (const checks::Argument& argument : {checks::Argument{"y", y}, {"x", x}, {"w", w}}) {
    checks::has_rank(op, argument, 2);
  }
  checks::has_shape(op, {"w", w}, {x.shape()[1], w.shape()[1]});
  checks::has_shape(op, {"y", y}, {x.shape()[0], w.shape()[1]});
  if (b) {
    checks::has_dtype(op, {"b", b}, DType::f32);
    checks::has_shape(op, {"b", b}, {w.shape()[1]});
  }
}

void check_gradient(std::string_view op, const checks::Argument& out, const Shape& shape) {
  if (!out.tensor) return;
  checks::has_dtype(op, out, DType::f32);
  checks::has_shape(op, out, shape);
}

double product_flops(const Tensor& x, const Tensor& other) {
  return 2 * elements(x) * static_cast<double>(other.shape()[1]);
}

}  // namespace

void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, Activation f, const Stream& stream) {
  check("dense", y, x, DType::f32, w, b, f, stream);
  GIRO_QUEUE(stream, dense, (y, x, w, b, f), {y}, {x, w, b}, product_flops(x, w) + (b ? elements(y) : 0));
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
  check_gradient(op, {"dx", dx}, x.shape());
  check_gradient(op, {"dw", dw}, w.shape());
  check_gradient(op, {"db", db}, {w.shape()[1]});
  GIRO_QUEUE(stream, dense_backward, (dx, dw, db, dz, x, w), {dx, dw, db}, {dz, dw ? x : Tensor(), dx ? w : Tensor()},
             ((dx ? 1 : 0) + (dw ? 1 : 0)) * product_flops(x, w) + (db ? elements(dz) : 0));
}

void dense_of_bytes(const Tensor& y, const Tensor& x, double factor, const Tensor& w, const Tensor& b, Activation f,
                    const Stream& stream) {
  check("dense_of_bytes", y, x, DType::u8, w, b, f, stream);
  GIRO_QUEUE(stream, dense_of_bytes, (y, x, factor, w, b, f), {y}, {x, w, b},
             product_flops(x, w) + elements(x) + (b ? elements(y) : 0));
}

void dense_of_bytes_backward(const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x, double factor,
                             const Stream& stream) {
  constexpr std::string_view op = "dense_of_bytes_backward";
  checks::on_device(op, {{"dw", dw}, {"db", db}, {"dz", dz}, {"x", x}}, stream);
  checks::has_dtype(op, {"x", x}, DType::u8);
  checks::has_dtype(op, {"dz", dz}, DType::f32);
  checks::has_rank(op, {"x", x}, 2);
  checks::has_rank(op, {"dz", dz}, 2);
  checks::has_shape(op, {"dz", dz}, {x.shape()[0], dz.shape()[1]});
  check_gradient(op, {"dw", dw}, {x.shape()[1], dz.shape()[1]});
  check_gradient(op, {"db", db}, {dz.shape()[1]});
  GIRO_QUEUE(stream, dense_of_bytes_backward, (dw, db, dz, x, factor), {dw, db}, {dz, dw ? x : Tensor()},
             (dw ? product_flops(x, dz) + elements(x) : 0) + (db ? elements(dz) : 0));
}

}  // namespace giro
