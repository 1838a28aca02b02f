#pragma once

// What the CUDA backend does for profiles and traces. Without it, or without a GPU, nothing happens.
namespace giro::cuda {

// Whether there is a GPU. Error(device).
bool set_profiling(bool on);

// A range of NVTX, in the calling thread.
void push_range(const char* name) noexcept;
void pop_range() noexcept;

// Waits for the launches that were timed since the trace began, and adds them to it. Error(device).
void finish_launch_times();

}  // namespace giro::cuda
