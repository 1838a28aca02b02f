#pragma once

#include <memory>
#include <string>
#include <vector>

#include <giro/kernels/nn/partitioner.h>
#include <giro/kernels/nn/reduce.h>

#include "kernels/expr/term.h"

namespace giro::nn {

// Applies a function of the table, or a custom one, to values that are broadcast and converted to one dtype.
Var apply(const expr::ScalarFunction& function, const std::vector<Operand>& operands);

// Sums a gradient over the axes along which a value of this shape was broadcast.
Var sum_to(const Var& term, const Shape& shape);

// Queues the expression that writes `value` to each element of y; returns y.
Var write(const char* op, const expr::Term& value, expr::Builder& builder, const Var& y);

// A copy of x's elements, selected by a layout in its memory.
Var view(const char* name, const Var& x, const Shape& shape, const expr::Layout& layout, Gradient gradient);

// The square root of the sum of squares, f32, or f64 of f64. The squares are f64, so they neither overflow nor
// underflow. The gradient of a norm of 0 is 0. Errors as for sum, by the op's name.
Var norm(const char* op, const Operand& x, const Axes& axes = {});

// take, but an error for an index out of range calls it `element`, such as "embedding: id".
Var take_checked(const std::string& element, const Var& x, const Var& indices, int axis = 0);

// The mean of the ranks' values; its gradient is such a mean, too. Each rank differentiates its own loss, and the mean
// of their gradients is that of the whole loss.
Var mean_of_ranks(std::shared_ptr<const Partitioner> ranks, const Var& x);

}  // namespace giro::nn
