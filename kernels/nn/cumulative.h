#pragma once

#include <giro/kernels/nn/operand.h>

namespace giro::nn {

// What the elements up to each come to, itself included, along an axis, of which a negative one counts from the end; of
// x's shape and dtype, but i64 of u8 and booleans. Floating ones are computed in double and rounded once for each
// element, in an order that follows from the shape alone; integers wrap.
// Errors: invalid_argument for an axis that is not there.
Var cumulative_sum(const Operand& x, int axis);
// The gradient by an element is the sum, from it on, of dy y / x; by the first zero of a row the others' products take
// y's place, and by those behind it it is 0: right everywhere, but to differentiate it again takes an input without
// zeros.
Var cumulative_product(const Operand& x, int axis);

}  // namespace giro::nn
