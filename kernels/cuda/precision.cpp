#include "kernels/precision_support.h"

#include <fmt/format.h>

#include "runtime/cuda/device.h"

namespace giro::cuda {

std::string unsupported_reason(Precision precision, Device device) {
  const int needed = precision == Precision::f32 ? 0 : precision == Precision::f16 ? 7 : 8;
  const int found = compute_capability(device);
  if (found / 10 >= needed) return "";
  return fmt::format("it requires compute capability {}.0 or later, found {}.{}", needed, found / 10, found % 10);
}

}  // namespace giro::cuda
