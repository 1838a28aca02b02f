#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// Slicing and joining values of any dtype. Ops that compute with the parts read and write them in place: the gates of
// an LSTM need no copies in either the forward or the backward pass.
// Errors: invalid_argument for an axis, begin or end out of range; shape_mismatch.

// Elements begin, begin + step, ... up to but excluding `end` along an axis, like x[begin:end:step] in NumPy. An
// omitted begin or end is that end of the axis; a negative axis, begin or end counts from the end; a negative step goes
// backwards. Unlike in NumPy, begin and end must lie within the axis, and `end` must not come before `begin`.
struct Slice {
  int axis = 0;
  std::optional<std::int64_t> begin = {}, end = {};
  std::int64_t step = 1;
};
//   slice(x, {.axis = 1, .begin = 0, .end = 3})      slice(x, {.axis = -1, .begin = -1})
Var slice(const Operand& x, const Slice& of);

// Parts of equal size, or of these sizes, which must add up to the size of the axis.
std::vector<Var> split(const Operand& x, int parts, int axis = 0);
std::vector<Var> split(const Operand& x, const std::vector<std::int64_t>& sizes, int axis = 0);

// Joins the parts along an axis; their other axes must be equal. Different dtypes are converted to the widest.
Var concatenate(const std::vector<Var>& parts, int axis = 0, Where where = Where::current());
// Joins parts of equal shape along a new axis of the result.
Var stack(const std::vector<Var>& parts, int axis = 0, Where where = Where::current());

// Adds elements of `value` before the first and after the last element along an axis.
struct PadOptions {
  int axis = 0;
  std::int64_t before = 0, after = 0;
  double value = 0;
};
Var pad(const Operand& x, const PadOptions& with);

}  // namespace giro::nn
