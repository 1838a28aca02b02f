#pragma once

#include <cstdint>
#include <vector>

#include <giro/kernels/row_order.h>
#include <giro/kernels/slots.h>
#include <giro/loop/data/batch.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/stream.h>

namespace giro {

// A dataset's rows on a device, and their order. Immutable, so any number of steps, loops and threads may gather from
// it at once.
class ResidentRows {
 public:
  // `rows` (N, ...) per feature, host memory, N = order.size; copied to the device.
  // Errors: out_of_memory, device.
  ResidentRows(const Batch::Features& rows, RowOrder order, Device device);

  Device device() const noexcept { return device_; }
  const Batch::Features& rows() const noexcept { return rows_; }  // (N, ...) on the device
  BatchSpec spec(std::int64_t rows) const;

  // Queues or records the gather of `rows` rows into temporaries of the stream. The call's slot of `positions` begins
  // with the position (i64) of the first row. The batch holds the temporaries.
  Batch gather(std::int64_t rows, const ByteRing& positions, const Stream& stream) const;

 private:
  Device device_;
  RowOrder order_;
  std::vector<Buffer> row_buffers_;
  Batch::Features rows_;
};

}  // namespace giro
