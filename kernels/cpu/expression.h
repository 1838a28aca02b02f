#pragma once

#include <giro/runtime/stream.h>

#include "kernels/pointwise/expression.h"

namespace giro::cpu {

// Queues it. What can be known of it beforehand is worked out here: a recording replays the rest.
// Errors: dtype_mismatch (a function does not take such inputs, or memory holds another dtype than its value),
// invalid_argument (argmax or argmin of nothing, operands that come later).
void run(const pointwise::Expression& expression, const Stream& stream);

}  // namespace giro::cpu
