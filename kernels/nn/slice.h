#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// Parts of values and what they make together, of any dtype. They are read and written in place by what computes with
// them: the gates of an LSTM take no copies, neither on the way nor in the gradient.
// Errors: invalid_argument for an axis, begin or end that is not there; shape_mismatch.

// Elements begin, begin + step, ... up to but without `end` along an axis, as x[begin:end:step] of NumPy: what is left
// out is the first or last of all, a negative axis, begin or end counts from the back, a negative step goes backwards.
// Unlike there, none may lie beyond the axis, nor `end` before `begin`.
struct Slice {
  int axis = 0;
  std::optional<std::int64_t> begin = {}, end = {};
  std::int64_t step = 1;
};
//   slice(x, {.axis = 1, .begin = 0, .end = 3})      slice(x, {.axis = -1, .begin = -1})
Var slice(const Operand& x, const Slice& of);

// Parts of equal size, or of these sizes, which add up to that of the axis.
std::vector<Var> split(const Operand& x, int parts, int axis = 0);
std::vector<Var> split(const Operand& x, const std::vector<std::int64_t>& sizes, int axis = 0);

// One after the other along an axis; their shapes are equal but for that. Of different dtypes they become the widest.
Var concatenate(const std::vector<Var>& parts, int axis = 0, Where where = Where::current());
// Along an axis of the result that they do not have, of shapes that are equal.
Var stack(const std::vector<Var>& parts, int axis = 0, Where where = Where::current());

// So many elements of a value before the first and after the last along an axis.
struct PadOptions {
  int axis = 0;
  std::int64_t before = 0, after = 0;
  double value = 0;
};
Var pad(const Operand& x, const PadOptions& with);

}  // namespace giro::nn
