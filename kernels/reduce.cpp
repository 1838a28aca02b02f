#include <giro/kernels/reduce.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {
namespace {

void check(std::string_view op, const Tensor& out, const Tensor& x, bool of_nothing, const Stream& stream) {
  checks::on_device(op, {{"out", out}, {"x", x}}, stream);
  checks::has_dtype(op, {"out", out}, DType::f32);
  checks::has_dtype(op, {"x", x}, DType::f32);
  checks::has_shape(op, {"out", out}, {});
  if (!of_nothing && x.count() == 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: x is {}, which has no elements", op, to_string(x)));
  }
}

}  // namespace

void sum(const Tensor& out, const Tensor& x, const Stream& stream) {
  check("sum", out, x, true, stream);
  GIRO_QUEUE(stream, sum, (out, x), {out}, {x}, elements(x));
}

void mean(const Tensor& out, const Tensor& x, const Stream& stream) {
  check("mean", out, x, false, stream);
  GIRO_QUEUE(stream, mean, (out, x), {out}, {x}, elements(x));
}

void max(const Tensor& out, const Tensor& x, const Stream& stream) {
  check("max", out, x, false, stream);
  GIRO_QUEUE(stream, max, (out, x), {out}, {x}, elements(x));
}

void sum_of_squares(const Tensor& out, const Tensor& x, const Stream& stream) {
  check("sum_of_squares", out, x, true, stream);
  GIRO_QUEUE(stream, sum_of_squares, (out, x), {out}, {x}, 2 * elements(x));
}

void sum_rows(const Tensor& out, const Tensor& x, const Stream& stream) {
  checks::on_device("sum_rows", {{"out", out}, {"x", x}}, stream);
  checks::is_storage("sum_rows", {"x", x});
  checks::is_f32_or_as("sum_rows", {"out", out}, {"x", x});
  checks::has_rank("sum_rows", {"x", x}, 2);
  checks::has_shape("sum_rows", {"out", out}, {x.shape()[1]});
  GIRO_QUEUE(stream, sum_rows, (out, x), {out}, {x}, elements(x));
}

}  // namespace giro
