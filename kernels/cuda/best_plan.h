#pragma once

#include <optional>
#include <string>

#include <giro/runtime/stream.h>

#include "kernels/cuda/graph_plan.h"

namespace giro::cuda {

// Queues the best of cuDNN's plans that runs on these arrays. Sets the question's alignment to theirs. Nothing is
// queued if there is none: returns why, in cuDNN's words. The plan that ran is kept with the stream and on disk.
std::optional<std::string> run_best_plan(GraphQuestion question, const GraphArrays& arrays, const Stream& stream);

}  // namespace giro::cuda
