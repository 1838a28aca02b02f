#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/runtime/dtype.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/shape.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// An array that lies in host memory, or is being copied there from a device. A handle: copies share the memory, which
// nothing writes once the data has arrived.
class HostArray {
 public:
  // The values, row-major: of shape (n,), or of `shape`, which must have n elements, else Error(shape_mismatch).
  template <class T>
  HostArray(std::vector<T> values) : HostArray(keep(std::move(values))) {}
  template <class T>
  HostArray(std::vector<T> values, const Shape& shape) : HostArray(keep(std::move(values)), shape) {}
  // `host` lies in memory that `owner` keeps alive. Its data is complete once the event `arrived`, recorded after the
  // copy, has completed; null: it is complete already. Several arrays may share one event. Error(device_mismatch) if
  // `host` is not on the CPU.
  HostArray(const Tensor& host, std::shared_ptr<const void> owner, std::shared_ptr<const Event> arrived = nullptr);
  // Queues a copy of `tensor` to the host, after the work queued so far. Does not wait. Errors: out_of_memory, device,
  // invalid_argument (the stream is recording).
  static HostArray copy_of(const Tensor& tensor, const Stream& stream);
  // An array delivered by `arriving`, which reports whether it is there, returns its tensor, on the CPU, and keeps it
  // alive.
  class Arriving {
   public:
    virtual ~Arriving() = default;
    virtual bool ready() const = 0;
    virtual Tensor tensor() const = 0;  // waits if necessary
  };
  HostArray(DType dtype, const Shape& shape, std::shared_ptr<const Arriving> arriving);
  // A number: f64, shape ().
  static HostArray scalar(double value);

  DType dtype() const noexcept { return content_->dtype; }
  const Shape& shape() const noexcept { return content_->shape; }
  // Whether tensor() returns without waiting.
  bool ready() const;
  // The array, on the CPU; valid as long as this HostArray or a copy of it lives. Waits for the device if necessary.
  // Errors: device.
  Tensor tensor() const;

 private:
  struct Content {
    DType dtype;
    Shape shape;
    Tensor host;
    std::shared_ptr<const void> owner;
    std::shared_ptr<const Event> arrived;
    std::shared_ptr<const Arriving> arriving;  // delivers the array in place of `host`, or null
  };
  // The same memory under another shape.
  HostArray(const HostArray& values, const Shape& shape);

  template <class T>
  static HostArray keep(std::vector<T> values) {
    static_assert(
        requires { DTypeOf<T>::value; },
        "giro: an array holds float, double, Float16, BFloat16, std::int32_t, std::int64_t, std::uint8_t or bool");
    const Shape shape{static_cast<std::int64_t>(values.size())};
    if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> packs bits
      const auto bytes = std::make_shared<std::vector<std::uint8_t>>(values.begin(), values.end());
      return {Tensor(bytes->data(), DType::boolean, shape, Device::cpu()), bytes};
    } else {
      const auto kept = std::make_shared<std::vector<T>>(std::move(values));
      return {Tensor(kept->data(), dtype_of<T>, shape, Device::cpu()), kept};
    }
  }

  detail::Handle<const Content> content_;
};

}  // namespace giro
