#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_on_cpu {

// The memory CUDA knows: device memory, which host code cannot touch (the pages are closed but while queued
// work runs; a host access ends the process, naming the block), and pinned host memory, open to both.
// Addresses are never given out twice, so what was freed stays recognisable.

struct Block {
  enum class Kind { device, pinned };
  char* begin;
  std::size_t bytes;
  Kind kind;
  std::uint64_t number;  // the how-manieth allocation of the process
};

// The live block that the address lies in, or null: pageable host memory, or freed.
const Block* find_block(const void* address);

// Throws CudaError(cudaErrorInvalidValue) if [begin, begin + bytes) starts in a block and does not end in it,
// or lies in device memory that is not allocated. Host memory that CUDA does not know passes: nobody can
// check it.
void check_range(const void* begin, std::size_t bytes, const char* call);

// Device memory is open while one of these lives. Only queued work holds one.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

constexpr std::size_t kDeviceBytes = std::size_t{8} << 30;  // what the device is said to have

std::size_t free_device_bytes();

}  // namespace cuda_on_cpu
