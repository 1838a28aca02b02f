#include "kernels/precision_support.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "runtime/cuda/check.h"

namespace giro::cuda {

std::string unsupported_reason(Precision precision, Device device) {
  const int needed = precision == Precision::f32 ? 0 : precision == Precision::f16 ? 7 : 8;
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index()), "cudaDeviceGetAttribute");
  if (major >= needed) return "";
  return fmt::format("it requires compute capability {}.0 or later, found {}.{}", needed, major, minor);
}

}  // namespace giro::cuda
