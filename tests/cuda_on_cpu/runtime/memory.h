#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace cuda_on_cpu {

// The memory that CUDA knows: device memory and pinned host memory. Host code cannot touch device memory: its pages are
// open only while queued work runs, and a host access ends the process and names the block. Pinned memory is open to
// both. Addresses are never reused, so freed memory stays recognisable.

struct Pool;

struct Block {
  enum class Kind { device, pinned };
  char* begin;
  std::size_t bytes;
  Kind kind;
  std::uint64_t number;          // counts the process's allocations
  std::shared_ptr<Pool> pool{};  // the pool that it was allocated from, or null
  bool free_is_queued = false;   // no new work may name it; work queued before may
  std::uint64_t freed_at = 0;    // last_entry() when cudaFree or cudaFreeHost freed it
  bool open = false;             // if closed to the host: whether queued work can touch it
};

// Adds a block and enters it in the account. Throws CudaError(cudaErrorMemoryAllocation) with the name of the call.
Block& add_block(std::size_t bytes, Block::Kind kind, const char* call);

// Closes the block and removes it from the account, immediately.
void remove_block(const Block& block);

// In CUDA, cudaFree and cudaFreeHost wait for the device. A program may rely on the memory staying valid until queued
// work is done with it, but if it relies on more, it lacks a wait. So here these calls run nothing: the block is closed
// to the program and to later work, and this removes it once all earlier work has run.
void remove_freed_memory();

// Removes a block from the account when its free is queued: it is no longer a leak.
void untrack(const Block& block);

// The live block that begins at this address. Throws CudaError(cudaErrorInvalidValue) with the name of the call.
Block& block_at(void* begin, const char* call);

// The live block that contains the address, or null for pageable host memory and freed memory.
Block* find_block(const void* address);

// Throws CudaError(cudaErrorInvalidValue) if [begin, begin + bytes) starts in a block but does not end in it, or lies
// in device memory that is not allocated. Other host memory passes, because it cannot be checked. Queued work calls
// this before it touches the memory, and the call opens the block.
void check_range(const void* begin, std::size_t bytes, const char* call);

// While an object lives, device memory is closed again, because host functions are host code.
class DeviceClosed {
 public:
  DeviceClosed();
  ~DeviceClosed();
  DeviceClosed& operator=(DeviceClosed&&) = delete;

 private:
  int working_;
};

// While an object lives, device memory can be opened. Only queued work holds one.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess& operator=(DeviceAccess&&) = delete;
};

constexpr std::size_t kDeviceBytes = std::size_t{8} << 30;  // the size that the device reports

std::size_t free_device_bytes();

}  // namespace cuda_on_cpu
