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
  Temporary(DType dtype, const Shape& shape, const Stream& stream)
      : Temporary(stream.allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)), dtype, shape) {}

 private:
  Temporary(Buffer memory, DType dtype, const Shape& shape)
      : Tensor(memory.place(), dtype, shape, memory.device()), memory_(std::move(memory)) {}

  Buffer memory_;
};

}  // namespace giro
