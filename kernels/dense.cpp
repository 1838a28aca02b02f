#include <giro/kernels/dense.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {

namespace {

void check(std::string_view op, const Tensor& y, const Tensor& x, DType x_dtype, const Tensor& w, const Tensor& b,
           const Stream& stream) {
  checks::on_device(op, {{"y", y}, {"x", x}, {"w", w}, {"b", b}}, stream);
  checks::is_storage(op, {"w", w});
  checks::same_dtype(op, {"y", y}, {"w", w});
  checks::has_dtype(op, {"x", x}, x_dtype);
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

double product_flops(const Tensor& x, const Tensor& other) {
  return 2 * elements(x) * static_cast<double>(other.shape()[1]);
}

}  // namespace

void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, Math math, const Stream& stream) {
  check("dense", y, x, w.dtype(), w, b, stream);
  GIRO_QUEUE(stream, dense, (y, x, w, b, math), {y}, {x, w, b}, product_flops(x, w) + (b ? elements(y) : 0));
}

void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                    const Tensor& w, Math math, const Stream& stream) {
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
  GIRO_QUEUE(stream, dense_backward, (dx, dw, db, dz, x, w, math), {dx, dw, db},
             {dz, dw ? x : Tensor(), dx ? w : Tensor()},
             ((dx ? 1 : 0) + (dw ? 1 : 0)) * product_flops(x, w) + (db ? elements(dz) : 0));
}

void dense_backward_add(const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x, Math math,
                        const Stream& stream) {
  constexpr std::string_view op = "dense_backward_add";
  checks::on_device(op, {{"dw", dw}, {"db", db}, {"dz", dz}, {"x", x}}, stream);
  checks::is_storage(op, {"x", x});
  checks::same_dtype(op, {"dz", dz}, {"x", x});
  checks::has_dtype(op, {"dw", dw}, DType::f32);
  checks::has_rank(op, {"dz", dz}, 2);
  checks::has_rank(op, {"x", x}, 2);
  checks::has_shape(op, {"dz", dz}, {x.shape()[0], dz.shape()[1]});
  checks::has_shape(op, {"dw", dw}, {x.shape()[1], dz.shape()[1]});
  check_gradient(op, {"db", db}, dz, {dz.shape()[1]});
  GIRO_QUEUE(stream, dense_backward_add, (dw, db, dz, x, math), {dw, db}, {dz, x, dw},
             product_flops(x, dz) + elements(dw) + (db ? elements(dz) : 0));
}

void dense_of_bytes(const Tensor& y, const Tensor& x, double factor, const Tensor& w, const Tensor& b,
                    const Stream& stream) {
  checks::has_dtype("dense_of_bytes", {"w", w}, DType::f32);
  check("dense_of_bytes", y, x, DType::u8, w, b, stream);
  GIRO_QUEUE(stream, dense_of_bytes, (y, x, factor, w, b), {y}, {x, w, b},
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
  check_gradient(op, {"dw", dw}, dz, {x.shape()[1], dz.shape()[1]});
  check_gradient(op, {"db", db}, dz, {dz.shape()[1]});
  GIRO_QUEUE(stream, dense_of_bytes_backward, (dw, db, dz, x, factor), {dw, db}, {dz, dw ? x : Tensor()},
             (dw ? product_flops(x, dz) + elements(x) : 0) + (db ? elements(dz) : 0));
}

}  // namespace giro
