#pragma once

#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {

// Work runs late, when a call waits for it; what a program, or another process, may wait for without a call of CUDA's
// is run up to this point by a thread of the emulation once it was left alone for half a second.
void run_if_left_alone(const Point& point);

}  // namespace cuda_on_cpu
