#include "runtime/cuda/device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "runtime/backend.h"
#include "runtime/cuda/check.h"

// The oldest compute capability this build holds code for, times ten; 0 if unknown.
#ifndef GIRO_CUDA_OLDEST_ARCHITECTURE
#define GIRO_CUDA_OLDEST_ARCHITECTURE 0
#endif

namespace giro::cuda {
namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string no_devices_reason(cudaError_t status) {
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no NVIDIA driver is installed";
  if (status == cudaErrorInsufficientDriver && cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    return fmt::format("the NVIDIA driver is too old: it supports CUDA {}, but giro was built with CUDA {}",
                       version_text(driver), version_text(runtime));
  }
  if (status == cudaErrorNoDevice || status == cudaSuccess) return "the NVIDIA driver finds no GPU";
  return fmt::format("CUDA failed to start: {} ({})", cudaGetErrorName(status), cudaGetErrorString(status));
}

}  // namespace

Discovery discover_gpus() {
  Discovery found;
  std::string& reason = found.no_cuda_reason;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) reason = no_devices_reason(status);
  for (int index = 0; status == cudaSuccess && index < count; ++index) {
    cudaDeviceProp properties{};
    if (const cudaError_t failure = cudaGetDeviceProperties(&properties, index); failure != cudaSuccess) {
      reason = fmt::format("{} does not respond: {}", to_string(Device::cuda(index)), cudaGetErrorString(failure));
    } else if (properties.major * 10 + properties.minor < GIRO_CUDA_OLDEST_ARCHITECTURE) {
      reason = fmt::format("{} is too old: it has compute capability {}.{}, but giro was built for {}.{} and above",
                           properties.name, properties.major, properties.minor, GIRO_CUDA_OLDEST_ARCHITECTURE / 10,
                           GIRO_CUDA_OLDEST_ARCHITECTURE % 10);
    } else {
      found.devices.push_back({Device::cuda(index), properties.name, properties.totalGlobalMem});
    }
  }
  if (!found.devices.empty()) reason.clear();
  (void)cudaGetLastError();  // errors from here must not surface at the next launch
  return found;
}

void make_current(Device device) {
  int current = -1;
  check(cudaGetDevice(&current), "cudaGetDevice");
  if (current != device.index()) check(cudaSetDevice(device.index()), "cudaSetDevice");
}

int compute_capability(Device device) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index()), "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

std::optional<std::size_t> free_memory(Device device) {
  std::size_t free = 0, total = 0;
  if (cudaSetDevice(device.index()) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess) return free;
  (void)cudaGetLastError();
  return {};
}

void* allocate(Device device, std::size_t bytes, MemoryKind kind) {
  make_current(device);
  const bool pinned = kind == MemoryKind::pinned;
  void* data = nullptr;
  const cudaError_t status =
      pinned ? cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped) : cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw Error(ErrorCode::out_of_memory,
                pinned ? fmt::format("the host does not have {} bytes of memory left that can be pinned", bytes)
                       : fmt::format("{} does not have {} bytes of memory left", to_string(device), bytes));
  }
  check(status, pinned ? "cudaHostAlloc" : "cudaMalloc");
  return data;
}

void deallocate(Device device, void* data, MemoryKind kind) noexcept {
  // Both wait for the device to finish with the block. They fail only while the process is ending, or after an error
  // that the next checked call reports as well.
  (void)cudaSetDevice(device.index());
  (void)(kind == MemoryKind::pinned ? cudaFreeHost(data) : cudaFree(data));
}

}  // namespace giro::cuda
