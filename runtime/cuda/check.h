#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

namespace giro::cuda {

// Clears the runtime's error and throws Error(device), or Error(out_of_memory) where that is the cause.
[[noreturn]] void fail(cudaError_t status, const char* call, std::source_location where);

// Throws unless the call succeeded; `call` is its name.
inline void check(cudaError_t status, const char* call, std::source_location where = std::source_location::current()) {
  if (status != cudaSuccess) [[unlikely]]
    fail(status, call, where);
}

// Call after every <<<>>>: throws if the launch itself was refused.
inline void check_launch(const char* kernel, std::source_location where = std::source_location::current()) {
  check(cudaGetLastError(), kernel, where);
}

}  // namespace giro::cuda
