#pragma once

#include <cstddef>
#include <utility>

#include <giro/runtime/buffer.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// A tensor with memory of its own from a stream (Stream::allocate), valid as long as this lives.
class Temporary : public Tensor {
 public:
  Temporary() = default;  // empty
  Temporary(Temporary&& other) noexcept { *this = std::move(other); }
  Temporary& operator=(Temporary&& other) noexcept {
    memory_ = std::move(other.memory_);
    Tensor::operator=(std::exchange(static_cast<Tensor&>(other), Tensor()));
    return *this;
  }
  Temporary(DType dtype, const Shape& shape, const Stream& stream)
      : Temporary(stream.allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)), dtype, shape) {}

 private:
  Temporary(Buffer memory, DType dtype, const Shape& shape)
      : Tensor(memory.place(), dtype, shape, memory.device()), memory_(std::move(memory)) {}

  Buffer memory_;
};

}  // namespace giro
