#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace cuda_on_cpu {

// The memory CUDA knows: device memory, which host code cannot touch (the pages are closed but while queued
// work runs; a host access ends the process, naming the block), and pinned host memory, open to both.
// Addresses are never given out twice, so what was freed stays recognisable.

struct Pool;

struct Block {
  enum class Kind { device, pinned };
  char* begin;
  std::size_t bytes;
  Kind kind;
  std::uint64_t number;          // the how-manieth allocation of the process
  std::shared_ptr<Pool> pool{};  // that it is taken from, or null
  bool free_is_queued = false;   // no new work may name it; what was queued before may
  std::uint64_t freed_at = 0;    // by a call that CUDA waits in: last_entry() then
  bool open = false;             // to queued work, if it is closed to the host
};

// A new block, on the account. Throws CudaError(cudaErrorMemoryAllocation), in the call's name.
Block& add_block(std::size_t bytes, Block::Kind kind, const char* call);

// Closes the block and takes it off the account, at once.
void remove_block(const Block& block);

// cudaFree and cudaFreeHost wait for the device; but a program that counts on more than that the memory stays
// until its users are done has forgotten a wait. So nothing runs then: the block is closed to the program and
// to work that is queued later, and goes once what was queued before has run.
void remove_freed_memory();

// A block whose free is queued is no leak.
void take_off_account(const Block& block);

// The live block that begins there. Throws CudaError(cudaErrorInvalidValue), in the call's name.
Block& block_at(void* begin, const char* call);

// The live block that the address lies in, or null: pageable host memory, or freed.
Block* find_block(const void* address);

// Throws CudaError(cudaErrorInvalidValue) if [begin, begin + bytes) starts in a block and does not end in it,
// or lies in device memory that is not allocated. Host memory that CUDA does not know passes: nobody can
// check it. Queued work calls it before it touches the memory, which it opens.
void check_range(const void* begin, std::size_t bytes, const char* call);

// Device memory is closed again while one of these lives: host functions are host code.
class DeviceClosed {
 public:
  DeviceClosed();
  ~DeviceClosed();
  DeviceClosed(const DeviceClosed&) = delete;
  DeviceClosed& operator=(const DeviceClosed&) = delete;

 private:
  int working_;
};

// Device memory can be opened while one of these lives. Only queued work holds one.
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
