#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

namespace giro {

// Where memory lies and work runs: the CPU, or one CUDA GPU. A comparable value; naming a device neither opens nor
// checks it.
class Device {
 public:
  enum class Kind { cpu, cuda };

  constexpr Device() = default;  // the CPU
  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return Device(Kind::cuda, index); }

  constexpr Kind kind() const { return kind_; }
  constexpr int index() const { return index_; }
  constexpr bool is_cpu() const { return kind_ == Kind::cpu; }
  constexpr bool is_cuda() const { return kind_ == Kind::cuda; }

  friend constexpr auto operator<=>(const Device&, const Device&) = default;

 private:
  constexpr Device(Kind kind, int index) : kind_(kind), index_(index) {}
  Kind kind_ = Kind::cpu;
  int index_ = 0;
};

// "cpu" or "cuda:0".
std::string to_string(Device device);

struct DeviceInfo {
  Device device;
  std::string name;              // as the vendor calls it
  std::size_t memory_bytes = 0;  // total, 0 where unknown
};

// The devices of this machine. A missing GPU is not an error: `no_cuda_reason` then says in one line why the list holds
// no CUDA device, and is empty otherwise.
struct Discovery {
  std::vector<DeviceInfo> devices;  // GPUs first, the CPU last
  std::string no_cuda_reason;

  Device best() const;
};
Discovery discover_devices();

// Why the kernels and plans that this process built for a GPU are not cached for the next run (GIRO_CACHE), e.g.
// because the directory is not writable; empty if they are cached, if the cache is off, or if none was built yet.
std::string disk_cache_error();

// The device named by a user's option: "auto" (the best available), "cpu", "cuda" or "cuda:N". Error(invalid_argument)
// for any other name, Error(device) with the reason if the GPU does not exist.
Device parse_device(const std::string& name, const Discovery& discovery);

}  // namespace giro
