#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// An array in host memory, which it owns, or on its way there from a device. A handle: copies share the memory, which
// nobody writes once it has arrived.
class HostArray {
 public:
  // Of the values, row-major: of shape (n,), or of a shape of that many elements, else Error(shape_mismatch).
  template <class T>
  HostArray(std::vector<T> values) : HostArray(keep(std::move(values))) {}
  template <class T>
  HostArray(std::vector<T> values, const Shape& shape) : HostArray(keep(std::move(values)), shape) {}
  // `host` lies in memory that `owner` keeps alive. It is there once `arrived`, recorded after the copy, has passed;
  // null: already. One event may stand for several arrays. Error(device_mismatch) if `host` is not on the CPU.
  HostArray(const Tensor& host, std::shared_ptr<const void> owner, std::shared_ptr<const Event> arrived = nullptr);
  // Queues a copy of `tensor` to the host, after the work so far. Does not wait. Errors: out_of_memory, device,
  // invalid_argument (the stream is recording).
  static HostArray copy_of(const Tensor& tensor, const Stream& stream);
  // One that somebody else brings: `arriving` is asked whether it is there, and for its tensor, on the CPU, which it
  // keeps alive.
  class Arriving {
   public:
    virtual ~Arriving() = default;
    virtual bool ready() const = 0;
    virtual Tensor tensor() const = 0;  // waits if need be
  };
  HostArray(DType dtype, const Shape& shape, std::shared_ptr<const Arriving> arriving);
  // A number: f64, shape ().
  static HostArray scalar(double value);

  DType dtype() const noexcept { return content_->host.dtype(); }
  const Shape& shape() const noexcept { return content_->host.shape(); }
  // Whether tensor() would not wait.
  bool ready() const;
  // The array, on the CPU; valid as long as this HostArray or a copy of it lives. Waits for the device if need be.
  // Errors: device.
  Tensor tensor() const;

 private:
  struct Content {
    Tensor host;
    std::shared_ptr<const void> owner;
    std::shared_ptr<const Event> arrived;
    std::shared_ptr<const Arriving> arriving;  // null, or who has what `host` describes
  };
  // The same memory under another shape.
  HostArray(const HostArray& values, const Shape& shape);

  template <class T>
  static HostArray keep(std::vector<T> values) {
    static_assert(
        requires { DTypeOf<T>::value; },
        "giro: an array holds float, double, Float16, BFloat16, std::int32_t, std::int64_t, std::uint8_t or bool");
    const Shape shape{static_cast<std::int64_t>(values.size())};
    if constexpr (std::is_same_v<T, bool>) {  // whose vector holds bits
      const auto bytes = std::make_shared<std::vector<std::uint8_t>>(values.begin(), values.end());
      return {Tensor(bytes->data(), DType::boolean, shape, Device::cpu()), bytes};
    } else {
      const auto kept = std::make_shared<std::vector<T>>(std::move(values));
      return {Tensor(kept->data(), dtype_of<T>, shape, Device::cpu()), kept};
    }
  }

  std::shared_ptr<const Content> content_;
};

}  // namespace giro
