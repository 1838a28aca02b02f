#pragma once

namespace giro {

// Tells a profiler that waits for cudaProfilerStart and cudaProfilerStop when to record this process, e.g.
//   nsys profile --capture-range=cudaProfilerApi --capture-range-end=repeat program
// In between, spans (span.h) are NVTX ranges. Nothing happens without a GPU or such a profiler. Error(device).
void start_profiler();
void stop_profiler();

}  // namespace giro
