#pragma once

#include <optional>
#include <string>

#include <giro/runtime/stream.h>

#include "kernels/cuda/graph_plan.h"

namespace giro::cuda {

// Queues the best of cuDNN's plans that runs on these arrays, whose alignment it sets in the spec. Keeps that plan
// with the stream and on disk. If there is none, queues nothing and returns the reason, in cuDNN's words.
std::optional<std::string> run_best_plan(GraphSpec spec, const GraphArrays& arrays, const Stream& stream);

}  // namespace giro::cuda
