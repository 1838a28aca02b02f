#pragma once

#include <vector>

#include <giro/kernels/nn/operand.h>

#include "kernels/expr/expression.h"

namespace giro::nn {

// Applies a function of the table, or a custom one, to values that are broadcast and converted to one dtype.
Var apply(const expr::ScalarFunction& function, const std::vector<Operand>& operands);

// Sums a gradient over the axes along which a value of this shape was broadcast.
Var sum_to(const Var& term, const Shape& shape);

// A copy of x's elements, selected by a layout in its memory.
Var view(const char* name, const Var& x, const Shape& shape, const expr::Layout& layout, Gradient gradient);

}  // namespace giro::nn
