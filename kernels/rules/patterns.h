#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/expr/expression.h"
#include "runtime/program/held_op.h"

// Patterns that rules match: expressions that read and write whole arrays in element order.
namespace giro::rules {

class OpList;

// The op's expression, or null.
const expr::Expression* expression_of(const detail::HeldOp& op);

// out = factor * in, computed in f32 and converted once; a conversion or a copy has the factor 1.
struct Scaling {
  Tensor out{}, in{};
  double factor = 1;
};
std::optional<Scaling> scaling_of(const detail::HeldOp& op);

// out = a + b.
struct Addition {
  Tensor out, a, b;
};
std::optional<Addition> addition_of(const detail::HeldOp& op);

// out = mean of all of x, f32.
struct Mean {
  Tensor out, x;
};
std::optional<Mean> mean_of(const detail::HeldOp& op);

// A counter that is incremented in its place, i64.
struct Increment {
  Tensor after, before;
  std::int64_t amount = 0;
};
std::optional<Increment> increment_of(const OpList& ops, std::size_t i);

// y = relu(x).
struct Relu {
  Tensor y, x;
};
std::optional<Relu> relu_of(const detail::HeldOp& op);

// dx = dy where y > 0, else 0.
struct ReluGradient {
  Tensor dx, dy, y;
};
std::optional<ReluGradient> relu_gradient_of(const detail::HeldOp& op);

}  // namespace giro::rules
