#include <giro/runtime/tensor.h>

#include <fmt/format.h>

#include <giro/runtime/buffer.h>
#include <giro/runtime/stream.h>

#include "runtime/backend.h"
#include "runtime/op_scope.h"
#include "runtime/stream_recording.h"
#include "runtime/throw_error.h"

namespace giro {

Tensor::Tensor(const std::shared_ptr<const Buffer>& buffer, DType dtype, Shape shape)
    : buffer_(buffer), shape_(shape), dtype_(dtype) {
  if (!buffer) throw_invalid("a tensor {}{} is given a buffer that is null", name_of(dtype), to_string(shape));
  data_ = buffer->place();
  device_ = buffer->device();
  if (data_ == nullptr) expect_no_elements();
}

Tensor Tensor::of_leaf(const std::shared_ptr<const Buffer>& memory, void* data, DType dtype, Shape shape) {
  Tensor leaf(data, dtype, shape, memory->device());
  leaf.buffer_ = memory;
  leaf.is_leaf_ = true;
  return leaf;
}

std::shared_ptr<const Buffer> Tensor::buffer() const {
  if (is_leaf_) return nullptr;
  std::shared_ptr<const Buffer> buffer = buffer_.lock();
  const std::weak_ptr<const Buffer> none;
  if (!buffer && (buffer_.owner_before(none) || none.owner_before(buffer_))) {
    throw_invalid(
        "{} uses memory that was released with the last nn::Var that held it; expected a Var that is kept, as by "
        "nn::stop_gradient",
        to_string(*this));
  }
  return buffer;
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (shape.count() != count()) {
    throw_error(ErrorCode::shape_mismatch, "cannot view {} as shape {}: {} elements versus {}", to_string(*this),
                to_string(shape), count(), shape.count());
  }
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > shape_[0]) {
    throw_invalid("rows [{}, {}) are out of range for {}", begin, end, to_string(*this));
  }
  const Shape row = shape_.drop_front();
  Tensor result = *this;
  if (begin < shape_[0]) {  // no rows stay within the memory
    result.data_ = static_cast<char*>(data_) + static_cast<std::size_t>(begin * row.count()) * size_of(dtype_);
  }
  result.shape_ = row.with_front(end - begin);
  return result;
}

void Tensor::expect_no_elements() const {
  if (count() == 0) return;
  throw_invalid("a tensor {}{} is given null, expected the memory of its elements", name_of(dtype_), to_string(shape_));
}

void Tensor::check_dtype(DType wanted) const {
  if (wanted != dtype_) throw_error(ErrorCode::dtype_mismatch, "{} read as {}", to_string(*this), name_of(wanted));
}

// The host cannot reach a GPU's memory anyway, and custom kernels take its address while recording.
void Tensor::check_computed() const {
  if (device_.is_cuda() || detail::StreamRecording::current() == nullptr || detail::OpScope::is_open()) return;
  throw_invalid(
      "data: {} is being recorded and holds no values yet; compute on it with ops, or in a function given to nn::call "
      "or submit, which runs at each replay",
      to_string(*this));
}

std::string to_string(const Tensor& tensor) {
  if (tensor.is_empty()) return "an empty tensor";
  return fmt::format("{}{} on {}", name_of(tensor.dtype()), to_string(tensor.shape()), to_string(tensor.device()));
}

namespace {

// A CPU stream copies only between host memory; a CUDA stream between its device and the host.
void check_accessible(const char* what, const Tensor& tensor, const Stream& stream) {
  if (tensor.is_empty()) throw_invalid("{} is {}, expected one with memory", what, to_string(tensor));
  if (stream.device().is_cpu() && !tensor.device().is_cpu()) {
    throw_error(ErrorCode::device_mismatch, "{} is {}, which a stream on {} cannot reach", what, to_string(tensor),
                to_string(stream.device()));
  }
}

// The host reads or writes at once, which cannot be part of a recording that runs later, and repeatedly.
void check_not_recording(const char* call, const Tensor& tensor, const Stream& stream) {
  stream.impl().check_usable(call);
  if (!stream.is_recording()) return;
  throw_invalid("{}: {} cannot be reached by the host while its stream is recording: the recorded work has not run yet",
                call, to_string(tensor));
}

}  // namespace

void copy(const Tensor& dst, const Tensor& src, const Stream& stream) {
  if (dst.shape() != src.shape()) {
    throw_error(ErrorCode::shape_mismatch, "copy: destination is {}, source is {}", to_string(dst), to_string(src));
  }
  if (dst.dtype() != src.dtype()) {
    throw_error(ErrorCode::dtype_mismatch, "copy: destination is {}, source is {}", to_string(dst), to_string(src));
  }
  check_accessible("copy: the destination", dst, stream);
  check_accessible("copy: the source", src, stream);
  detail::before_write(dst, stream);
  detail::queue_copy(dst, src, stream);
}

void detail::read_bytes(void* host, const Tensor& tensor, const Stream& stream) {
  check_accessible("the tensor to read", tensor, stream);
  check_not_recording("to_host", tensor, stream);
  stream.copy(host, tensor.raw(), tensor.bytes());
  stream.synchronize();
}

void detail::write_bytes(const Tensor& tensor, const void* host, std::size_t bytes, const Stream& stream) {
  if (bytes != tensor.bytes()) {
    throw_error(ErrorCode::shape_mismatch, "{} bytes given for {}, expected {}", bytes, to_string(tensor),
                tensor.bytes());
  }
  check_accessible("the tensor to write", tensor, stream);
  check_not_recording("from_host", tensor, stream);
  before_write(tensor, stream);
  stream.copy(tensor.raw(), host, bytes);
  stream.synchronize();
}

}  // namespace giro
