#pragma once

#include <cstddef>
#include <memory>

#include <giro/runtime/device.h>
#include <giro/runtime/place.h>

namespace giro {

class Arena;

enum class MemoryKind {
  device,  // the device's own memory; on the CPU ordinary memory
  pinned,  // host memory, page-locked if there is a GPU: host and GPU access it at the same address
};

// Owns a block of memory. Move-only: copying is an explicit copy on a stream. Contents start undefined. A block from
// allocate() is freed with the buffer, after the device has finished with it; a block from Stream::allocate goes back
// to its arena, for later work on the same stream.
class Buffer {
 public:
  static constexpr std::size_t kAlignment = 256;  // of every block, in bytes

  Buffer() = default;  // empty
  // Errors: out_of_memory, device.
  static Buffer allocate(Device device, std::size_t bytes, MemoryKind kind = MemoryKind::device);

  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  // Errors: those of detail::address_of.
  void* data() const { return detail::is_name(data_) ? detail::address_of(data_) : data_; }
  // The same, or in a recording the name of the memory that it will have.
  void* place() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }  // bytes
  Device device() const noexcept { return device_; }
  MemoryKind kind() const noexcept { return kind_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  friend class Arena;
  Buffer(void* data, std::size_t size, Device device, MemoryKind kind, std::shared_ptr<Arena> arena = nullptr) noexcept;
  void reset() noexcept;

  void* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_;
  MemoryKind kind_ = MemoryKind::device;
  std::shared_ptr<Arena> arena_;  // null: the buffer owns the block
};

}  // namespace giro
