#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>

#include "kernels/pointwise/arguments.h"

// For ops along one axis of a value.
namespace giro::nn {

// The axis, counted from the front. Errors: invalid_argument for a number, or an axis that does not exist.
inline std::size_t checked_axis(const char* op, const Operand& x, int axis) {
  pointwise::expect_value(op, x);
  return pointwise::checked_axes(op, x.var.shape(), {axis}).front();
}

// The shape as three axes: all before an axis joined into one, the axis, and all after it joined into one.
inline std::array<std::int64_t, 3> split_around_axis(const Shape& shape, std::size_t axis) {
  std::array<std::int64_t, 3> sizes{1, shape.begin()[axis], 1};
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i != axis) sizes[i < axis ? 0 : 2] *= shape.begin()[i];
  }
  return sizes;
}

// Moves the axis last, applies of_rows to rows (R, L) along it, which gives rows (R, K), and moves the axis back.
template <class F>
Var along_axis(const Var& x, std::size_t axis, const F& of_rows) {
  std::vector<int> order(x.shape().rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axis], order.back());
  const bool is_last = axis + 1 == order.size();
  const Var moved = is_last ? x : transpose(x, order);
  std::vector<std::int64_t> sizes(moved.shape().begin(), moved.shape().end());
  const std::int64_t length = sizes.back(), rows = length == 0 ? 0 : x.shape().count() / length;
  const Var result = of_rows(moved.reshape({rows, length}));
  sizes.back() = result.shape()[1];
  const Var whole = result.reshape(Shape(sizes));
  return is_last ? whole : transpose(whole, order);
}

}  // namespace giro::nn
