#pragma once

namespace giro {

// Where a profiler that waits to be told records this process: cudaProfilerStart and cudaProfilerStop, for
//   nsys profile --capture-range=cudaProfilerApi --capture-range-end=repeat program
// In between, spans (span.h) are NVTX ranges. Nothing happens where there is no GPU, or no such profiler.
// Error(device).
void start_profiler();
void stop_profiler();

}  // namespace giro
