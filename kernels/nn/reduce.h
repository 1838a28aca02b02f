#pragma once

#include <vector>

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// The axes of a reduction: all, or those given, where a negative one counts from the end. mean(x, {-1}) keeps each
// reduced axis with size 1, so that x - mean(x, {-1}) broadcasts; Axes({-1}).dropped() removes it. Over all axes the
// result is a scalar.
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

// The order of sums depends on the shape alone. Sums of bf16 and f16 are f32, sums of integers and booleans i64.
// Errors: dtype_mismatch; invalid_argument for an axis that does not exist or is named twice, and for the max, min,
// argmax or argmin of no elements.
Var sum(const Operand& x, const Axes& axes = {});
Var mean(const Operand& x, const Axes& axes = {});  // f32 for integers; NaN for no elements
// The gradient is correct at zeros, too, but second derivatives require inputs without zeros.
Var product(const Operand& x, const Axes& axes = {});
// NaN if an element is. Equal elements share the gradient.
Var max(const Operand& x, const Axes& axes = {});
Var min(const Operand& x, const Axes& axes = {});
// The index of the first largest (smallest) element, or of the first NaN, along these axes flattened into one; i64.
Var argmax(const Operand& x, const Axes& axes = {});
Var argmin(const Operand& x, const Axes& axes = {});
Var any(const Operand& x, const Axes& axes = {});  // of booleans
Var all(const Operand& x, const Axes& axes = {});
Var logsumexp(const Operand& x, const Axes& axes = {});  // -inf for no elements
// exp(x) / sum(exp(x)), and its logarithm, of x's shape; f32, as logsumexp, for bf16, f16 and integers.
Var softmax(const Operand& x, const Axes& axes = {-1});
Var log_softmax(const Operand& x, const Axes& axes = {-1});
Var variance(const Operand& x, const Axes& axes = {});  // the mean of the squares of x - mean(x)

// The mean of scalars, one or more.
Var mean(const std::vector<Var>& scalars, Where where = Where::current());

}  // namespace giro::nn
