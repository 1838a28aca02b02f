#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {

// Throws Error(invalid_argument) for a number, where an op needs a value.
void expect_value(const char* op, const Operand& x);

// A CallSite at the value's line that also expects a value, as expect_value does.
struct ValueCall : detail::CallSite {
  ValueCall(const char* op, const Operand& x) : CallSite(x.where) { expect_value(op, x); }
};

// Throws Error(invalid_argument) for a number out of the range of an integer dtype.
void expect_fits(const char* op, double number, DType dtype);

// Expects an integer or an integer scalar; `what` names its role. Throws Error(invalid_argument) for another number,
// Error(dtype_mismatch) or Error(shape_mismatch) for another value.
void expect_scalar(const char* op, const char* what, const Operand& x);
// Expects an integer or an i64 scalar. Errors as above.
void expect_key(const char* op, const Operand& key);

// Throws Error(shape_mismatch) if `from` does not broadcast to `to`.
void expect_broadcasts(const char* op, const Shape& from, const Shape& to);

// A constant without a stream takes the other value's.
inline Var on_stream_of(const Var& x, const Var& other) { return other.has_stream() ? x.on(other.stream()) : x; }

// The values among the operands.
std::vector<Var> values_of(const std::vector<Operand>& operands);

// The dtype to which values of two dtypes are converted when combined.
DType promoted(DType a, DType b);

// The axes, counted from the front; negative ones count from the end. Throws Error(invalid_argument) for an axis that
// does not exist or is named twice.
std::vector<std::size_t> checked_axes(const char* op, const Shape& shape, const std::vector<int>& axes);

// The axis, counted from the front. Errors: invalid_argument for a number, or an axis that does not exist.
inline std::size_t checked_axis(const char* op, const Operand& x, int axis) {
  expect_value(op, x);
  return checked_axes(op, x.var.shape(), {axis}).front();
}

// The shape as three axes: all before an axis joined into one, the axis, and all after it joined into one.
inline std::array<std::int64_t, 3> split_around_axis(const Shape& shape, std::size_t axis) {
  std::array<std::int64_t, 3> sizes{1, shape.begin()[axis], 1};
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i != axis) sizes[i < axis ? 0 : 2] *= shape.begin()[i];
  }
  return sizes;
}

// The shape with another size of one axis.
inline Shape with_size(const Shape& shape, std::size_t axis, std::int64_t size) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes[axis] = size;
  return Shape(sizes);
}

// Moves the axis last, applies of_rows to rows (R, L) along it, which gives rows (R, K), and moves the axis back.
template <class F>
Var along_axis(const Var& x, std::size_t axis, const F& of_rows) {
  std::vector<int> order(x.shape().rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axis], order.back());
  const bool is_last = axis + 1 == order.size();
  const Var moved = is_last ? x : transpose(x, order);
  const std::int64_t length = moved.shape()[-1], rows = length == 0 ? 0 : x.shape().count() / length;
  const Var result = of_rows(moved.reshape({rows, length}));
  const Var whole = result.reshape(with_size(moved.shape(), order.size() - 1, result.shape()[1]));
  return is_last ? whole : transpose(whole, order);
}

// A mask or weights of a shape's first axes, with axes of size 1 for the others, so that it broadcasts to the shape.
inline Var with_first_axes(const char* what, const Var& x, const Shape& shape) {
  const Shape& first = x.shape();
  if (first.rank() > shape.rank() || !std::equal(first.begin(), first.end(), shape.begin())) {
    throw_shape("{} is {}, values is {}; expected the first axes of values", what, to_string(first), to_string(shape));
  }
  std::vector<std::int64_t> sizes(first.begin(), first.end());
  sizes.resize(shape.rank(), 1);
  return x.reshape(Shape(sizes));
}

}  // namespace giro::nn
