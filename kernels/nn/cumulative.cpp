#include <giro/kernels/nn/cumulative.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/indexing.h>
#include <giro/kernels/nn/slice.h>

#include "kernels/nn/arguments.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"

namespace giro::nn {
namespace {

using Cumulative = ops::Cumulative::Of;

Var along_rows(Cumulative of, bool reversed, const Var& x, Gradient gradient) {
  if (!is_floating(x.dtype())) gradient = nullptr;
  const Var y = Var::computed(x.dtype(), x.shape(), {x}, std::move(gradient));
  queue(ops::Cumulative{y.value(), x.value(), of, reversed}, y.stream());
  return y;
}

Var sum_of_rows(const Var& x, bool reversed = false) {
  return along_rows(Cumulative::sum, reversed, x, [reversed](const Var&, const Var& dy, const std::vector<Var>&) {
    return sum_of_rows(dy, !reversed);
  });
}

Var product_of_rows(const Var& x) {
  return along_rows(Cumulative::product, false, x, [](const Var& y, const Var& dy, const std::vector<Var>& in) {
    const Var& x = in.front();
    const DType dtype = promoted(x.dtype(), DType::f32);
    const Var is_zero = x == 0;
    const Var is_first = logical_and(is_zero, sum_of_rows(cast(is_zero, DType::i32)) == 1);
    const Var others = product_of_rows(where(is_first, 1, cast(x, dtype)));
    const Var terms = cast(dy, dtype);
    const Var by_first = sum_of_rows(terms * others, true);
    const Var by_number = sum_of_rows(terms * cast(y, dtype), true) / where(is_zero, 1, x);
    return cast(where(is_first, by_first, where(is_zero, 0, by_number)), x.grad_dtype());
  });
}

// The sum of each run of equal results goes to the element that began it.
Var max_of_rows(const Var& x) {
  return along_rows(Cumulative::max, false, x, [](const Var& y, const Var& dy, const std::vector<Var>& in) {
    const std::int64_t rows = y.shape()[0], length = y.shape()[1], count = rows * length;
    const Var place = arange(length, dy.stream());
    const Var before =
        pad(slice(y, {.axis = 1, .end = std::max<std::int64_t>(length - 1, 0)}), {.axis = 1, .before = 1});
    const Var goes_on = logical_or(y == before, logical_and(is_nan(y), is_nan(before)));
    const Var first = max_of_rows(broadcast_to(where(logical_and(goes_on, place > 0), 0, place), y.shape()));
    const Var number = first + arange(rows, dy.stream()).reshape({rows, 1}) * length;
    const Var zeros = cast(arange(count, dy.stream()) * 0, in[0].grad_dtype());
    return scatter_add(zeros, number.reshape({count}), dy.reshape({count})).reshape(y.shape());
  });
}

template <class F>
Var of_numbers(const char* op, const Operand& x, int axis, const F& of_rows) {
  const detail::CallSite site(x.where);
  const std::size_t place = checked_axis(op, x, axis);
  const DType dtype = x.var.dtype();
  const Var numbers = cast(x.var, dtype == DType::u8 || dtype == DType::boolean ? DType::i64 : dtype);
  return along_axis(numbers, place, of_rows);
}

}  // namespace

Var cumulative_sum(const Operand& x, int axis) {
  return of_numbers("cumulative_sum", x, axis, [](const Var& rows) { return sum_of_rows(rows); });
}

Var cumulative_product(const Operand& x, int axis) {
  return of_numbers("cumulative_product", x, axis, product_of_rows);
}

Var cumulative_max(const Operand& x, int axis) { return of_numbers("cumulative_max", x, axis, max_of_rows); }

}  // namespace giro::nn
