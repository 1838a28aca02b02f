#pragma once

#include <optional>
#include <string>

#include <giro/runtime/stream.h>

#include "kernels/cuda/graph_plan.h"

namespace giro::cuda {

// Queues the best plan of cuDNN that runs on these arrays, whose alignment the question takes over. Nothing is queued
// if there is none: returns why, in cuDNN's words. The plan that ran is kept with the stream and on disk.
std::optional<std::string> run_best_plan(GraphQuestion question, const GraphArrays& arrays, const Stream& stream);

}  // namespace giro::cuda
