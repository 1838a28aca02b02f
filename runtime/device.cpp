#include <giro/runtime/device.h>

#include <fmt/format.h>

#include <algorithm>

#include "runtime/backend.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {

std::string to_string(Device device) { return device.is_cpu() ? "cpu" : fmt::format("cuda:{}", device.index()); }

Device Discovery::best() const { return devices.front().device; }

Discovery discover_devices() {
  Discovery found = cuda::discover_gpus();
  found.devices.push_back(cpu::device_info());
  return found;
}

std::string disk_cache_error() { return cuda::disk_cache_error(); }

Device parse_device(const std::string& name, const Discovery& discovery) {
  if (name == "auto") return discovery.best();
  if (name == "cpu") return Device::cpu();
  int index = 0;
  bool known = name == "cuda";
  if (name.starts_with("cuda:")) {
    index = parse_number<int>(std::string_view(name).substr(5)).value_or(-1);
    known = index >= 0;
  }
  if (!known) throw_invalid("unknown device '{}': expected auto, cpu, cuda or cuda:N", name);
  const Device device = Device::cuda(index);
  if (std::ranges::find(discovery.devices, device, &DeviceInfo::device) == discovery.devices.end()) {
    const std::string why = discovery.no_cuda_reason.empty()
                                ? fmt::format("this machine has {} CUDA device(s)", discovery.devices.size() - 1)
                                : discovery.no_cuda_reason;
    throw_error(ErrorCode::device, "no device {}: {}", to_string(device), why);
  }
  return device;
}

}  // namespace giro
