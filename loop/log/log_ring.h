#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <giro/kernels/publish.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

class LogRing;

// The scalars one step has logged: a row that the device writes when it gets there, and the host reads behind it.
class LogRow {
 public:
  // Whether the device has written it.
  bool ready() const;
  // Waits for the device if need be. Errors: device.
  double value(std::size_t column) const;

 private:
  friend class LogRing;
  LogRow(std::shared_ptr<const LogRing> ring, std::int64_t index) : ring_(std::move(ring)), index_(index) {}
  void read() const;

  mutable std::shared_ptr<const LogRing> ring_;  // null once read
  std::int64_t index_;
  mutable std::vector<double> values_;
};

// The ring through which a step's scalars reach the host. The device does not wait for the host within a step; the
// host does not queue a step whose row would overwrite one that is still to be read: it reads that one first, and so
// comes to wait for the device where it is kCapacity rows ahead.
class LogRing : public std::enable_shared_from_this<LogRing> {
 public:
  static constexpr std::int64_t kCapacity = 1024;

  // Rows of `scalars.size()` columns. Errors: invalid_argument (more than RowRing::kMaxColumns), out_of_memory.
  static std::shared_ptr<LogRing> create(std::size_t columns, const Stream& stream);

  // Queues, or records, the writing of a row.
  void publish(const std::vector<Tensor>& scalars) const;
  // The row that the next publish to be run will write. Call before it is queued or replayed.
  std::shared_ptr<const LogRow> expect();

  std::size_t columns() const noexcept { return columns_; }
  const Stream& stream() const noexcept { return stream_; }

 private:
  friend class LogRow;
  LogRing(std::size_t columns, const Stream& stream);
  std::int64_t published() const;

  std::size_t columns_;
  Stream stream_;
  Buffer shared_;  // pinned: the count of published rows, then the rows
  Buffer counter_storage_;
  Tensor counter_;  // i64 scalar on the device: the row to write next
  RowRing ring_;
  std::int64_t expected_ = 0;
  std::vector<std::weak_ptr<const LogRow>> rows_;
};

}  // namespace giro
