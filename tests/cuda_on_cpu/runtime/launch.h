#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace cuda_on_cpu {

// A handle that launches the kernel of that name, which has no host function. The same handle at every call.
cudaKernel_t kernel_handle(const std::string& name);

}  // namespace cuda_on_cpu
