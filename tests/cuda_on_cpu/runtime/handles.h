#pragma once

#include <cstddef>
#include <string>

namespace cuda_on_cpu {

// An account of everything that a program creates and must destroy: streams, events, graphs, memory, and the libraries'
// handles and descriptors. Anything left at exit is a leak and makes the process fail, unless GIRO_CUDA_ON_CPU_LEAKS is
// "report" or "ignore".

// `kind` is a literal that the report names ("stream"). `bytes` is for memory.
void add_handle(const char* kind, const void* handle, std::size_t bytes = 0);
// Returns false if the handle was destroyed before, or never existed.
bool remove_handle(const char* kind, const void* handle);
bool is_alive(const char* kind, const void* handle);

// Throws CudaError(cudaErrorInvalidResourceHandle) with the name of the call unless the handle is alive.
void expect_alive(const char* kind, const void* handle, const char* call);

// One line per kind: how many are left, and which was the first. Empty if nothing is left.
std::string leak_report();

}  // namespace cuda_on_cpu
