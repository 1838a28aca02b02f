#pragma once

#include <utility>
#include <vector>

#include <giro/runtime/stream.h>

#include "kernels/pointwise/expression.h"

namespace giro::ops {
struct Publish;
}

namespace giro::cuda {

// Queues an expression on a stream of its device. Compiles its kernels unless this process or the cache has them.
// Errors: device, out_of_memory, unsupported (no NVRTC), invalid_argument (a function's source does not compile).
void run(const pointwise::Expression& expression, const Stream& stream);
// The same, then publishes a row unless `tail` is null. With a tail, the expression must not reduce anything.
void run_with_tail(const pointwise::Expression& expression, const ops::Publish* tail, const Stream& stream);

// Compiles all kernels that these need, in one go (Kernels::prepare). If one does not compile, the op that runs it
// fails later.
void prepare(const std::vector<std::pair<const pointwise::Expression*, const ops::Publish*>>& with_tails,
             const Stream& stream);

}  // namespace giro::cuda
