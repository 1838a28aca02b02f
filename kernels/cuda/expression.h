#pragma once

#include <utility>
#include <vector>

#include <giro/runtime/stream.h>

#include "kernels/expr/expression_op.h"

namespace giro::ops {
struct Publish;
}

namespace giro::cuda {

// Queues an expression as run() does, then publishes a row unless `tail` is null. With a tail, the expression must not
// reduce anything.
void run_with_tail(const expr::Expression& expression, const ops::Publish* tail, const Stream& stream);

// Compiles all kernels that these need, in one go (Kernels::prepare). If one does not compile, the op that runs it
// fails later.
void prepare(const std::vector<std::pair<const expr::Expression*, const ops::Publish*>>& with_tails,
             const Stream& stream);

}  // namespace giro::cuda
