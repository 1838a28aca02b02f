#pragma once

#include <cstddef>
#include <string>

namespace cuda_on_cpu {

// The account of everything that a program creates and has to destroy: streams, events, graphs, memory, the
// libraries' handles and descriptors. What is left at exit is a leak and fails the process, unless
// GIRO_CUDA_ON_CPU_LEAKS is "report" or "ignore".

// `kind` is a literal, named in the report ("stream"). `bytes` is for memory.
void add_handle(const char* kind, const void* handle, std::size_t bytes = 0);
// False if there is no such live handle: it was destroyed before, or never was one.
bool remove_handle(const char* kind, const void* handle);
bool is_alive(const char* kind, const void* handle);

// Throws CudaError(cudaErrorInvalidResourceHandle) unless it is alive, naming the call.
void expect_alive(const char* kind, const void* handle, const char* call);

// One line a kind: how many, which was the first of them. Empty if nothing is left.
std::string leak_report();

}  // namespace cuda_on_cpu
