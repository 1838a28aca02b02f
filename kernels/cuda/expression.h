#pragma once

#include <utility>
#include <vector>

#include <giro/runtime/stream.h>

#include "kernels/pointwise/expression.h"

namespace giro::ops {
struct Publish;
}

namespace giro::cuda {

// Queues an expression on a stream of its device. Its kernels are compiled where neither this process nor the cache has
// them. Errors: device, out_of_memory, unsupported (no NVRTC), invalid_argument (a function's source does not compile).
void run(const pointwise::Expression& expression, const Stream& stream);
// The same, given that it reduces nothing, and then publishes a row.
void run_with_tail(const pointwise::Expression& expression, const ops::Publish* tail, const Stream& stream);

// Compiles what these need, all at once (Kernels::prepare). What does not compile is left to the op that runs it, which
// then fails.
void prepare(const std::vector<std::pair<const pointwise::Expression*, const ops::Publish*>>& with_tails,
             const Stream& stream);

}  // namespace giro::cuda
