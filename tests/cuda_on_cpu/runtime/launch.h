#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace cuda_on_cpu {

// Returns a handle that launches the kernel of that name, which has no host function: always the same handle.
cudaKernel_t kernel_handle(const std::string& name);

}  // namespace cuda_on_cpu
