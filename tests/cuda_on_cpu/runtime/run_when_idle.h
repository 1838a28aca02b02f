#pragma once

#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {

// Work runs late, when a call waits for it. But a program or another process may wait without a CUDA call. For such
// work, a thread of the emulation runs everything up to this point if nothing has run it for half a second.
void run_when_idle(const Point& point);

}  // namespace cuda_on_cpu
