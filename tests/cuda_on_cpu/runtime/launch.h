#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace cuda_on_cpu {

// What launches the kernel of that name, which is no host function's; the same at every call.
cudaKernel_t kernel_handle(const std::string& name);

}  // namespace cuda_on_cpu
