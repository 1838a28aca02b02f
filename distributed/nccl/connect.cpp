#include "distributed/internal/job.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "distributed/nccl/communicator.h"
#include "runtime/cuda/check.h"

namespace giro::nccl {

std::string identity_of(Device device) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, device.index()), "cudaGetDeviceProperties");
  std::string text = "GPU-";
  for (const char byte : properties.uuid.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::shared_ptr<detail::CommunicatorImpl> connect(const Communicator& host, Device device,
                                                  std::chrono::milliseconds timeout) {
  return NcclCommunicator::connect(host, device, timeout);
}

void abandon_peers() noexcept { peers_abandoned = true; }

}  // namespace giro::nccl
