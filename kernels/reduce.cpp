#include <giro/kernels/reduce.h>

#include <utility>

#include "kernels/checks.h"
#include "kernels/expr/term.h"
#include "kernels/ops.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

using expr::Builder;
using expr::Term;

void check(std::string_view op, const Tensor& out, DType dtype, const Tensor& x, bool of_nothing,
           const Stream& stream) {
  checks::on_device(op, {{"out", out}, {"x", x}}, stream);
  checks::has_dtype_and_shape(op, {"out", out}, dtype, {});
  checks::has_dtype(op, {"x", x}, DType::f32);
  if (!of_nothing && x.count() == 0) {
    throw_error(ErrorCode::invalid_argument, "{}: x is {}, which has no elements", op, to_string(x));
  }
}

// Reduces all elements to one; f builds the result from an element.
template <class F>
void reduce(const char* op, const Tensor& out, const Tensor& x, const Stream& stream, const F& f) {
  const Shape space{x.count()};
  Builder code(space, 1);
  f(Term(code, code.read(x, expr::broadcast_layout(space, space)))).write(out, {});
  queue(op, std::move(code).take(), stream);
}

}  // namespace

void sum(const Tensor& out, const Tensor& x, const Stream& stream) {
  check("sum", out, DType::f32, x, true, stream);
  reduce("sum", out, x, stream, [](const Term& each) { return each.sum(); });
}

void mean(const Tensor& out, const Tensor& x, const Stream& stream) {
  check("mean", out, DType::f32, x, false, stream);
  reduce("mean", out, x, stream, [&](const Term& each) { return each.sum() / static_cast<double>(x.count()); });
}

void sum_of_squares(const Tensor& out, const Tensor& x, const Stream& stream) {
  check("sum_of_squares", out, DType::f64, x, true, stream);
  reduce("sum_of_squares", out, x, stream, [](const Term& each) { return square(each.cast(DType::f64)).sum(); });
}

void sum_rows(const Tensor& out, const Tensor& x, const Stream& stream) {
  checks::on_device("sum_rows", {{"out", out}, {"x", x}}, stream);
  checks::is_storage("sum_rows", {"x", x});
  checks::is_f32_or_as("sum_rows", {"out", out}, {"x", x});
  checks::has_rank("sum_rows", {"x", x}, 2);
  checks::has_shape("sum_rows", {"out", out}, {x.shape()[1]});
  queue(ops::SumRows{out, x}, stream);
}

}  // namespace giro
