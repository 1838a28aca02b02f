#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "runtime/backend.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device.h"

namespace giro::cuda {

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
