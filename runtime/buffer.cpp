#include <giro/runtime/buffer.h>

#include <utility>

#include "runtime/arena.h"
#include "runtime/backend.h"

namespace giro {

Buffer::Buffer(void* data, std::size_t size, Device device, MemoryKind kind, std::shared_ptr<Arena> arena) noexcept
    : data_(data), size_(size), device_(device), kind_(kind), arena_(std::move(arena)) {}

Buffer Buffer::allocate(Device device, std::size_t bytes, MemoryKind kind) {
  if (bytes == 0) return {nullptr, 0, device, kind};
  return {device.is_cuda() ? cuda::allocate(device, bytes, kind) : cpu::allocate(bytes), bytes, device, kind};
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    device_ = other.device_;
    kind_ = other.kind_;
    arena_ = std::move(other.arena_);
  }
  return *this;
}

Buffer::~Buffer() { reset(); }

void Buffer::reset() noexcept {
  if (data_ == nullptr) return;
  if (arena_) {
    arena_->release(data_);
  } else if (device_.is_cuda()) {
    cuda::deallocate(device_, data_, kind_);
  } else {
    cpu::deallocate(data_);
  }
  data_ = nullptr;
  size_ = 0;
  arena_.reset();
}

}  // namespace giro
