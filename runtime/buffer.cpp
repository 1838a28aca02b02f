#include <giro/runtime/buffer.h>

#include <utility>

#include "runtime/arena.h"
#include "runtime/backend.h"

namespace giro {

Buffer Buffer::allocate(Device device, std::size_t bytes, MemoryKind kind) {
  Buffer buffer;
  buffer.device_ = device;
  buffer.kind_ = kind;
  buffer.size_ = bytes;
  if (bytes > 0) buffer.data_ = device.is_cuda() ? cuda::allocate(device, bytes, kind) : cpu::allocate(bytes);
  return buffer;
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
