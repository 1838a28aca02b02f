#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <giro/runtime/device.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/place.h>
#include <giro/runtime/shape.h>

namespace giro {

class Buffer;
class Stream;

// A typed view of memory that something else owns: contiguous, row-major. Cheap to copy; valid as long as the owner (a
// Buffer, a State, a Batch) lives.
class Tensor {
 public:
  Tensor() = default;
  // Error(invalid_argument) for null, unless the shape has no elements.
  Tensor(void* data, DType dtype, Shape shape, Device device)
      : data_(data), shape_(shape), device_(device), dtype_(dtype) {
    if (data == nullptr) expect_no_elements();
  }
  // At the beginning of a buffer.
  Tensor(const std::shared_ptr<const Buffer>& buffer, DType dtype, Shape shape);
  // A part of a state's memory, which the state keeps.
  static Tensor of_leaf(const std::shared_ptr<const Buffer>& memory, void* data, DType dtype, Shape shape);

  // Its address. In a recording, what it is asked of gets memory of its own, which stays as long as the recorded graph.
  // Errors: those of detail::address_of.
  void* raw() const { return detail::is_name(data_) ? detail::address_of(data_) : data_; }
  // The same, or in a recording the name of the memory that it will have.
  void* place() const noexcept { return data_; }
  // The elements as T. Errors: dtype_mismatch if T does not store the tensor's dtype; invalid_argument for a value in
  // host memory that the calling thread's recording computes: it does not exist before the replay.
  template <class T>
  T* data() const {
    check_dtype(dtype_of<T>);
    if (recorded_) check_computed();
    return static_cast<T*>(raw());
  }

  // The same view at its address, as raw().
  Tensor settled() const {
    Tensor result = *this;
    result.data_ = raw();
    return result;
  }

  const Shape& shape() const noexcept { return shape_; }
  DType dtype() const noexcept { return dtype_; }
  Device device() const noexcept { return device_; }
  std::int64_t count() const noexcept { return shape_.count(); }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(count()) * size_of(dtype_); }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  // Whether it has elements and no memory for them, as Tensor().
  bool is_empty() const noexcept { return data_ == nullptr && count() > 0; }
  // The buffer it was made from, to share its memory; null for other memory. Error(invalid_argument) if that buffer was
  // freed.
  std::shared_ptr<const Buffer> buffer() const;

  // For a part of a state's memory: all of it, as long as that exists; null for any other tensor.
  const std::weak_ptr<const Buffer>* leaf_memory() const noexcept { return is_leaf_ ? &buffer_ : nullptr; }

  // The same elements under another shape of equal count, else Error(shape_mismatch).
  Tensor reshape(const Shape& shape) const;
  // Rows [begin, end) of the first axis. Error(invalid_argument) if they are out of range.
  Tensor rows(std::int64_t begin, std::int64_t end) const;
  // The same view, marked as computed by, or given to, a recording: see data().
  Tensor recorded() const {
    Tensor result = *this;
    result.recorded_ = true;
    return result;
  }

 private:
  void expect_no_elements() const;
  void check_dtype(DType wanted) const;
  void check_computed() const;

  void* data_ = nullptr;
  std::weak_ptr<const Buffer> buffer_;
  Shape shape_;
  Device device_;
  DType dtype_ = DType::f32;
  bool recorded_ = false, is_leaf_ = false;
};

// "f32(32, 10) on cuda:0"
std::string to_string(const Tensor& tensor);

// Copies src into dst on the stream: between host and device on a CUDA stream, only between host tensors on a CPU
// stream. Errors: shape_mismatch, dtype_mismatch, device_mismatch.
void copy(const Tensor& dst, const Tensor& src, const Stream& stream);

namespace detail {
// Copies to.bytes() bytes, between any dtypes and devices.
void queue_copy(const Tensor& to, const Tensor& from, const Stream& stream);
void read_bytes(void* host, const Tensor& tensor, const Stream& stream);
void write_bytes(const Tensor& tensor, const void* host, std::size_t bytes, const Stream& stream);
}  // namespace detail

// The elements in host memory, after all work queued on the stream before. Waits. Errors: dtype_mismatch,
// device_mismatch (as copy).
template <class T>
std::vector<T> to_host(const Tensor& tensor, const Stream& stream) {
  static_assert(!std::is_same_v<T, bool>, "read a bool tensor as std::uint8_t through a view");
  (void)tensor.data<T>();
  std::vector<T> values(static_cast<std::size_t>(tensor.count()));
  detail::read_bytes(values.data(), tensor, stream);
  return values;
}

// Copies host values into the tensor and waits. Error(shape_mismatch) if the counts differ, device_mismatch as copy.
template <class T>
void from_host(const Tensor& tensor, const std::vector<T>& values, const Stream& stream) {
  (void)tensor.data<T>();
  detail::write_bytes(tensor, values.data(), values.size() * sizeof(T), stream);
}

}  // namespace giro
