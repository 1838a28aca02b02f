#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <giro/runtime/error.h>

#include "distributed/job.h"
#include "distributed/nccl/communicator.h"
#include "runtime/cuda/check.h"
#include "runtime/throw_error.h"

namespace giro::nccl {

bool is_available() noexcept { return true; }

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

std::unique_ptr<detail::Job> start(const detail::Launch& launch, Device device, std::chrono::milliseconds timeout) {
  std::shared_ptr<NcclCommunicator> gpus;
  try {
    gpus = NcclCommunicator::connect(launch.address, launch.rank, launch.size, device, timeout);
  } catch (const Error& error) {
    throw_error(error.code(), "World: rank {} of {}, started by {}, cannot connect to the others at {}: {}",
                launch.rank, launch.size, launch.launcher, launch.address, error.what());
  }
  auto job = std::make_unique<detail::Job>();
  job->host = std::make_shared<HostCommunicator>(std::move(gpus));  // NCCL also transfers data in host memory
  job->local_rank = launch.local_rank;
  std::array<char, 256> machine{};
  gethostname(machine.data(), machine.size() - 1);
  const auto machines = detail::exchange(Communicator(job->host), machine);
  job->local_size = static_cast<int>(std::count(machines.begin(), machines.end(), machine));
  return job;
}

}  // namespace giro::nccl
