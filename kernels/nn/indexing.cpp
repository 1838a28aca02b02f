#include <giro/kernels/nn/indexing.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/reduce.h>
#include <giro/kernels/nn/sort.h>

#include "kernels/nn/apply.h"
#include "kernels/nn/arguments.h"
#include "kernels/nn/store.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

using expr::broadcast_layout;
using expr::Builder;
using expr::Layout;
using expr::Term;

void expect_indices(const char* op, const Var& indices) {
  giro::detail::expect_fit(op, "indices: i", {&indices.value()});
}

Gradient if_floating(const Var& x, Gradient gradient) { return is_floating(x.dtype()) ? std::move(gradient) : nullptr; }

Shape joined(const Shape& first, const Shape& second) {
  std::vector<std::int64_t> sizes(first.begin(), first.end());
  sizes.insert(sizes.end(), second.begin(), second.end());
  return Shape(sizes);
}

Var in_three_axes(const Var& x, std::size_t axis) {
  const auto [outer, size, inner] = split_around_axis(x.shape(), axis);
  return x.reshape({outer, size, inner});
}

Var taken(const Var& x, const Var& indices, const Fault& fault);

// Sums (N, W) of the rows (R, W) by their indices (R,).
Var sums_by_index(const Var& rows, const Var& indices, std::int64_t size, bool are_distinct) {
  const auto gradient = [](const Var&, const Var& dy, const std::vector<Var>& in) {
    const Var of_rows = taken(dy.reshape({1, dy.shape()[0], dy.shape()[1]}), in[1], {});
    return Gradients{cast(of_rows.reshape(in[0].shape()), in[0].grad_dtype()), Var()};
  };
  Var sums = Var::computed(ops::dtype_of_sums(rows.dtype()), {size, rows.shape()[1]}, {rows, indices},
                           if_floating(rows, gradient));
  Var order;
  if (!are_distinct && indices.shape().count() > 1) order = argsort(stop_gradient(indices));
  queue(ops::ScatterAdd{sums.value(), rows.value(), indices.value(), order.value()}, sums.stream());
  return sums;
}

// Rows of the middle axis of x (O, N, I), for indices (R,): (O, R, I).
Var taken(const Var& x, const Var& indices, const Fault& fault) {
  const auto gradient = [](const Var&, const Var& dy, const std::vector<Var>& in) {
    const std::int64_t outer = dy.shape()[0], count = dy.shape()[1], inner = dy.shape()[2], size = in[0].shape()[1];
    const auto with_rows_first = [&](const Var& of) { return outer == 1 ? of : transpose(of, {1, 0, 2}); };
    const Var sums = sums_by_index(with_rows_first(dy).reshape({count, outer * inner}), in[1], size, false);
    const Shape apart = outer == 1 ? Shape{1, size, inner} : Shape{size, outer, inner};
    return Gradients{cast(with_rows_first(sums.reshape(apart)), in[0].grad_dtype()), Var()};
  };
  Var y = Var::computed(x.dtype(), {x.shape()[0], indices.shape()[0], x.shape()[2]}, {x, indices},
                        if_floating(x, gradient));
  queue(ops::GatherRows{y.value(), x.value(), indices.value(), 1, fault}, y.stream());
  return y;
}

// Elements of x (O, N, I) for indices (O, J, I) along the middle axis, which is `axis` of the given ones. They are
// gathered by their numbers in all of x, -1 if out of range. are_distinct: no index occurs twice, so the gradient need
// not sort them.
Var take_along(const Var& given_x, const Var& given_indices, std::size_t axis, bool are_distinct) {
  const Var x = in_three_axes(given_x, axis), indices = in_three_axes(given_indices, axis);
  const Shape& from = x.shape();
  const Shape& shape = indices.shape();
  const std::int64_t size = from[1], inner = from[2];
  Var numbers = Var::computed(DType::i64, {shape.count()}, {indices, stop_gradient(x)}, nullptr);
  Builder builder(shape);
  const Layout whole = broadcast_layout(shape, shape);
  const Term index = builder.read(indices.value(), whole).cast(DType::i64);
  const Term first = builder.place({.strides = {size * inner, 0, 1}});
  where(index < 0, -1, where(index < size, index * inner + first, -1)).write(numbers.value(), whole);
  queue("take_along_axis", std::move(builder).take(), numbers.stream());

  const auto gradient = [shape, from, indices, are_distinct](const Var&, const Var& dy, const std::vector<Var>& in) {
    const auto term = [&] {
      if (shape[1] == 1) {  // without a sum
        const Var places = arange(from[1], dy.stream()).reshape({from[1], 1});
        return where(equal(indices, places), dy.reshape(shape), 0).reshape({from.count()});
      }
      return sums_by_index(dy.reshape({shape.count(), 1}), in[1], from.count(), are_distinct).reshape({from.count()});
    };
    return Gradients{cast(term(), in[0].grad_dtype()), Var()};
  };
  Var y = Var::computed(x.dtype(), {shape.count()}, {x.reshape({from.count()}), numbers}, if_floating(x, gradient));
  queue(ops::GatherRows{y.value(), x.reshape({from.count()}).value(), numbers.value(), 0, {}}, y.stream());
  return y.reshape(given_indices.shape());
}

// Fills y with a function of the place along the last axis.
Var by_index(const char* op, const Var& y, const std::function<Term(Builder&, const Term&)>& value) {
  Builder builder(y.shape());
  Layout along;
  along.strides[y.shape().rank() - 1] = 1;
  return write(op, value(builder, builder.place(along)).cast(y.dtype()), builder, y);
}

// The first `kept` indices of each row.
Var order_along(const Var& x, std::size_t axis, std::int64_t kept, bool descending) {
  if (x.shape().begin()[axis] > std::numeric_limits<std::uint32_t>::max()) {
    throw_shape("argsort: x is {}, expected fewer than 2^32 elements along axis {}", to_string(x.value()), axis);
  }
  return along_axis(stop_gradient(x), axis, [&](const Var& rows) {
    Var order = Var::computed(DType::i64, {rows.shape()[0], kept}, {rows}, nullptr);
    queue(ops::ArgSort{order.value(), rows.value(), descending}, order.stream());
    return order;
  });
}

}  // namespace

Var take(const Operand& x, const Var& indices, int axis) {
  const detail::CallSite site(x.where);
  checked_axis("take", x, axis);
  expect_indices("take", indices);
  return take_checked("take: index", x.var, indices, axis);
}

Var take_checked(const std::string& element, const Var& x, const Var& given, int axis) {
  const std::size_t along = checked_axis("take", x, axis);
  const Shape& from = x.shape();
  std::vector<std::int64_t> sizes(from.begin(), from.begin() + along);
  sizes.insert(sizes.end(), given.shape().begin(), given.shape().end());
  sizes.insert(sizes.end(), from.begin() + along + 1, from.end());
  const Var indices = on_stream_of(given, x).reshape({given.shape().count()});
  const Fault fault = detail::Faults::of(indices.stream(), element, given.value(), from.begin()[along]);
  return taken(in_three_axes(x, along), indices, fault).reshape(Shape(sizes));
}

Var embedding(const Var& ids, const Var& table, Where where) {
  const detail::CallSite site(where);
  giro::detail::expect_fit("embedding", "table: *(vd), ids: i", {&table.value(), &ids.value()});
  return take_checked("embedding: id", table, ids);
}

Var take_along_axis(const Operand& x, const Var& given, int axis) {
  const detail::CallSite site(x.where);
  const std::size_t along = checked_axis("take_along_axis", x, axis);
  expect_indices("take_along_axis", given);
  const Shape &from = x.var.shape(), &to = given.shape();
  if (to.rank() != from.rank() || with_size(to, along, from.begin()[along]) != from) {
    throw_shape("take_along_axis: indices is {}, x is {}; expected equal sizes except along axis {}", to_string(to),
                to_string(from), along);
  }
  return take_along(x.var, on_stream_of(given, x.var), along, false);
}

Var scatter_add(const Operand& x, const Var& given, const Var& updates) {
  const detail::CallSite site(x.where);
  checked_axis("scatter_add", x, 0);
  expect_indices("scatter_add", given);
  const DType dtype = x.var.dtype();
  if (dtype == DType::boolean || updates.dtype() == DType::boolean) {
    throw_error(ErrorCode::dtype_mismatch, "scatter_add: x is {}, updates is {}; expected numeric dtypes",
                to_string(x.var.value()), to_string(updates.value()));
  }
  const Shape& shape = x.var.shape();
  const Shape expected = joined(given.shape(), shape.drop_front());
  if (updates.shape() != expected) {
    throw_shape("scatter_add: updates is {}, expected {}", to_string(updates.shape()), to_string(expected));
  }
  const std::int64_t size = shape[0], count = given.shape().count(), width = shape.drop_front().count();
  const Var indices = on_stream_of(given, x.var).reshape({count});
  const Var rows = cast(on_stream_of(updates, x.var), is_floating(dtype) ? dtype : DType::i64).reshape({count, width});
  const Var sums = sums_by_index(rows, indices, size, false).reshape(shape);
  const Var result = cast(x.var + sums, dtype);
  if (!is_floating(dtype)) return result;
  const Var fits = all(logical_and(indices >= 0, indices < size));
  return nn::where(fits, result, std::numeric_limits<double>::quiet_NaN());
}

Var one_hot(const Var& indices, std::int64_t depth, DType dtype, Where where) {
  const detail::CallSite site(where);
  expect_indices("one_hot", indices);
  if (depth < 0) throw_invalid("one_hot: depth is {}, expected 0 or more", depth);
  const Var y = Var::computed(dtype, joined(indices.shape(), {depth}), {indices}, nullptr);
  return by_index("one_hot", y, [&](Builder& builder, const Term& place) {
    Layout layout = broadcast_layout(indices.shape(), indices.shape());
    return builder.read(indices.value(), layout).cast(DType::i64) == place;
  });
}

Var arange(std::int64_t count, const Stream& stream, DType dtype, Where where) {
  const detail::CallSite site(where);
  if (count < 0) throw_invalid("arange: count is {}, expected 0 or more", count);
  expect_fits("arange", static_cast<double>(count - 1), count > 0 ? dtype : DType::i64);
  return by_index("arange", uninitialized(dtype, {count}, stream), [](Builder&, const Term& place) { return place; });
}

Var argsort(const Operand& x, int axis) {
  const detail::CallSite site(x.where);
  const std::size_t along = checked_axis("argsort", x, axis);
  return order_along(x.var, along, x.var.shape().begin()[along], false);
}

Var sort(const Operand& x, int axis) {
  const detail::CallSite site(x.where);
  const std::size_t along = checked_axis("sort", x, axis);
  return take_along(x.var, order_along(x.var, along, x.var.shape().begin()[along], false), along, true);
}

TopK top_k(const Operand& x, std::int64_t k) {
  const detail::CallSite site(x.where);
  const std::size_t along = checked_axis("top_k", x, -1);
  const std::int64_t size = x.var.shape().begin()[along];
  if (k < 0 || k > size) {
    throw_invalid("top_k: k is {}, expected 0 to {}, the size of the last axis of {}", k, size,
                  to_string(x.var.shape()));
  }
  const Var indices = order_along(x.var, along, k, true);
  return {take_along(x.var, indices, along, true), indices};
}

}  // namespace giro::nn
