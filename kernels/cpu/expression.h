#pragma once

#include <giro/runtime/stream.h>

#include "kernels/pointwise/expression.h"

namespace giro::cpu {

// Queues the expression. Plans it right away; a recording replays only the plan.
// Errors: dtype_mismatch (a function does not take such inputs, or memory holds another dtype than its value),
// invalid_argument (argmax or argmin of no elements, an operand after its use).
void run(const pointwise::Expression& expression, const Stream& stream);

}  // namespace giro::cpu
