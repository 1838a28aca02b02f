#pragma once

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// The sum, or the product, of the elements up to and including each one, along an axis; a negative axis counts from the
// end. The result has x's shape and dtype, except i64 for u8 and booleans. Floats are computed in double and rounded
// once per element, in an order that depends on the shape alone; integers wrap.
// Errors: invalid_argument for an axis that does not exist.
Var cumulative_sum(const Operand& x, int axis);
// The gradient with respect to an element x is the sum, from x on, of dy y / x. At the first zero of a row, the product
// of the other elements takes the place of y / x; at later zeros the gradient is 0. It is correct everywhere, but
// second derivatives require inputs without zeros.
Var cumulative_product(const Operand& x, int axis);
// The largest element up to and including each one. From a NaN on, all are NaN. The gradient goes to the first of equal
// elements.
Var cumulative_max(const Operand& x, int axis);

}  // namespace giro::nn
