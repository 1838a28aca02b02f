#include "distributed/internal/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <giro/runtime/error.h>

#include "distributed/internal/exchange.h"
#include "distributed/internal/job.h"
#include "runtime/internal/throw_error.h"

namespace giro::detail {
namespace {

struct RankDevice {
  Device device;
  std::array<char, 64> gpu{};       // identifies the GPU among the GPUs of all machines
  std::array<char, 160> missing{};  // why the GPU is missing, if it is
};

template <std::size_t kSize>
void set(std::array<char, kSize>& text, const std::string& value) {
  value.copy(text.data(), kSize - 1);
}

RankDevice rank_device_of(Device device) {
  RankDevice rank_device{.device = device};
  if (device.is_cpu()) return rank_device;
  const Discovery discovery = discover_devices();
  const bool found = std::any_of(discovery.devices.begin(), discovery.devices.end(),
                                 [&](const DeviceInfo& info) { return info.device == device; });
  if (!found) {
    set(rank_device.missing, discovery.no_cuda_reason.empty()
                                 ? fmt::format("there are {} GPUs", discovery.devices.size() - 1)
                                 : discovery.no_cuda_reason);
    return rank_device;
  }
  try {
    set(rank_device.gpu, nccl::identity_of(device));
  } catch (const Error& error) {
    set(rank_device.missing, error.what());
  }
  return rank_device;
}

}  // namespace

Device device_of_rank(int local_rank) {
  const Discovery discovery = discover_devices();
  const std::size_t gpus = discovery.devices.size() - 1;
  return gpus == 0 ? Device::cpu() : discovery.devices[static_cast<std::size_t>(local_rank) % gpus].device;
}

void check_placement(const Communicator& host, Device device) {
  const std::vector<RankDevice> rank_devices = exchange(host, rank_device_of(device));
  for (std::size_t rank = 0; rank < rank_devices.size(); ++rank) {
    const RankDevice& rank_device = rank_devices[rank];
    if (rank_device.missing[0] != '\0') {
      throw_error(ErrorCode::device, "communicator: rank {} has no {}: {}", rank, to_string(rank_device.device),
                  rank_device.missing.data());
    }
    if (rank_device.device.kind() != rank_devices[0].device.kind()) {
      throw_error(
          ErrorCode::device_mismatch,
          "communicator: rank 0 asks for {}, rank {} for {}: either all ranks compute on GPUs, or all on the CPU",
          to_string(rank_devices[0].device), rank, to_string(rank_device.device));
    }
    for (std::size_t other = 0; rank_device.device.is_cuda() && other < rank; ++other) {
      if (rank_device.gpu != rank_devices[other].gpu) continue;
      throw_error(ErrorCode::device_mismatch,
                  "communicator: rank {} and rank {} share the GPU {}: each rank needs its own", other, rank,
                  rank_device.gpu.data());
    }
  }
}

}  // namespace giro::detail
