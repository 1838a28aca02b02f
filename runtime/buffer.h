#pragma once

#include <cstddef>
#include <memory>

#include <giro/runtime/device.h>

namespace giro {

class Arena;

enum class MemoryKind {
  device,  // of the device itself; on the CPU ordinary memory
  pinned,  // of the host, page-locked where there is a GPU: both read and write it at the same address
};

// Owns a block of memory. Move-only: copying is an explicit copy on a stream. Contents start undefined.
// A block allocated here is freed when the buffer goes, after the device has finished with it; one that came
// from Stream::allocate goes back to its arena, for later work of the same stream.
class Buffer {
 public:
  static constexpr std::size_t kAlignment = 256;  // bytes, of every block

  Buffer() = default;  // empty
  // Errors: out_of_memory, device.
  static Buffer allocate(Device device, std::size_t bytes, MemoryKind kind = MemoryKind::device);

  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }  // bytes
  Device device() const noexcept { return device_; }
  MemoryKind kind() const noexcept { return kind_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  friend class Arena;
  void reset() noexcept;

  void* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_;
  MemoryKind kind_ = MemoryKind::device;
  std::shared_ptr<Arena> arena_;  // null: the block is the buffer's own
};

}  // namespace giro
