#pragma once

// The CUDA backend's part in profiles and traces. Without the backend, or without a GPU, nothing happens.
namespace giro::cuda {

// Returns whether there is a GPU. Error(device).
bool set_profiling(bool on);

// An NVTX range in the calling thread.
void push_range(const char* name) noexcept;
void pop_range() noexcept;

// Waits for the launches that were timed since the trace began, and adds them to it. Error(device).
void finish_launch_times();

}  // namespace giro::cuda
