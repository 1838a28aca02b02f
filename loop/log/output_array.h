#pragma once

#include <cstddef>
#include <memory>

#include <giro/loop/log/log_row.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// An array in host memory, or on its way there from a device. A handle: copies share the memory, which nobody writes
// once it has arrived.
class OutputArray {
 public:
  // `host` lies in memory that `owner` keeps alive. It is there once `arrived`, recorded behind the copy, has passed;
  // null: already. One event may stand for several arrays. Error(device_mismatch) if `host` is not on the CPU.
  OutputArray(const Tensor& host, std::shared_ptr<const void> owner, std::shared_ptr<const Event> arrived = nullptr);
  // Array number `index` of a row that a step writes to a ring. Error(device) when it is read, if that never happens.
  OutputArray(DType dtype, const Shape& shape, std::shared_ptr<const LogRow> row, std::size_t index);
  // Queues a copy of `tensor` to the host, behind the work so far. Does not wait. Errors: out_of_memory, device,
  // invalid_argument (the stream is recording).
  static OutputArray copy_of(const Tensor& tensor, const Stream& stream);
  // A number: f64, shape ().
  static OutputArray scalar(double value);

  DType dtype() const noexcept { return content_->host.dtype(); }
  const Shape& shape() const noexcept { return content_->host.shape(); }
  // Whether tensor() would not wait.
  bool ready() const;
  // The array, on the CPU; valid as long as this OutputArray or a copy of it lives. Waits for the device if need be.
  // Errors: device.
  Tensor tensor() const;

 private:
  struct Content {
    Tensor host;
    std::shared_ptr<const void> owner;
    std::shared_ptr<const Event> arrived;
    std::shared_ptr<const LogRow> row;  // or null; `host` then tells dtype and shape alone
    std::size_t index = 0;
  };
  std::shared_ptr<const Content> content_;
};

}  // namespace giro
