#pragma once

#include <vector>

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// Which axes a reduction goes over: some, of which a negative one counts from the end, or all. mean(x, {-1}) keeps an
// axis of size 1 in the place of each, so that x - mean(x, {-1}) broadcasts; Axes({-1}).dropped() does not. Over all
// axes the result is a scalar.
class Axes {
 public:
  Axes() = default;  // all
  Axes(std::initializer_list<int> axes) : axes_(axes), all_(false) {}
  explicit Axes(std::vector<int> axes) : axes_(std::move(axes)), all_(false) {}

  Axes dropped() const {
    Axes result = *this;
    result.kept_ = false;
    return result;
  }
  bool all() const noexcept { return all_; }
  bool kept() const noexcept { return kept_ && !all_; }
  const std::vector<int>& axes() const noexcept { return axes_; }

 private:
  std::vector<int> axes_;
  bool all_ = true, kept_ = true;
};

// Sums are in an order that follows from the shape alone. Those of bf16 and f16 are f32, of integers and booleans i64.
// Errors: invalid_argument for an axis that is not there or is named twice, dtype_mismatch; invalid_argument for the
// max, min, argmax or argmin of nothing.
Var sum(const Operand& x, const Axes& axes = {});
Var mean(const Operand& x, const Axes& axes = {});  // of integers: f32; of nothing: NaN
// Its gradient by a zero is right; to differentiate that again takes an input without zeros.
Var product(const Operand& x, const Axes& axes = {});
// NaN if one element is. Elements that are equal share the gradient.
Var max(const Operand& x, const Axes& axes = {});
Var min(const Operand& x, const Axes& axes = {});
// The place of the first that is largest, or of the first NaN, along these axes taken as one; i64.
Var argmax(const Operand& x, const Axes& axes = {});
Var argmin(const Operand& x, const Axes& axes = {});
Var any(const Operand& x, const Axes& axes = {});  // of booleans
Var all(const Operand& x, const Axes& axes = {});
Var logsumexp(const Operand& x, const Axes& axes = {});
Var variance(const Operand& x, const Axes& axes = {});  // the mean of the squares of x - mean(x)

// Of scalars, one or more.
Var mean(const std::vector<Var>& scalars, Where where = Where::current());

}  // namespace giro::nn
