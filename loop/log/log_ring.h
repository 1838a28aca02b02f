#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <giro/kernels/publish.h>
#include <giro/kernels/slots.h>
#include <giro/loop/log/logs.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/host_array.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

class LogRing;

// The logs of one call of a step: a row of a ring. Keeps its values once it is read.
class LogRow {
 public:
  // Whether the device has written it.
  bool ready() const;
  // Each waits for the device if needed. Errors: device.
  double value(std::size_t entry) const { return *read()[entry].number(); }
  const HostArray& array(std::size_t entry) const { return *read()[entry].array(); }

 private:
  friend class LogRing;
  LogRow(std::shared_ptr<const LogRing> ring, std::int64_t number) : ring_(std::move(ring)), number_(number) {}
  const std::vector<LogValue>& read() const;

  mutable std::shared_ptr<const LogRing> ring_;  // null once read
  std::int64_t number_;
  mutable Logs logs_;  // once read
};

// Transfers a step's logs to the host: a ring of rows in memory that both host and device access. Call number c of the
// step writes row c: its scalars, and the arrays among its outputs. The host reads the row later. The device never
// waits for the host, so the host must not queue a call that would overwrite an unread row (has_room).
class LogRing : public std::enable_shared_from_this<LogRing> {
 public:
  static constexpr std::int64_t kCapacity = 1024;                      // rows; fewer if their arrays exceed kArrayBytes
  static constexpr std::int64_t kArrayBytes = std::int64_t{64} << 20;  // limit for the arrays of all rows

  // For logs with these entries: scalars on the device, arrays among the outputs, and host numbers, which keep the
  // values they have here. `call` is an i64 scalar on the device; it is `first` when the first row is written. Errors:
  // shape_mismatch naming an entry that is an array but not an output; out_of_memory.
  static std::shared_ptr<LogRing> create(const Logs& logs, const Tensor& call, const Stream& stream,
                                         std::int64_t first = 0);
  // Whether these logs have the same entries, each on the same side (device or host), with the same array shapes and
  // dtypes.
  bool takes(const Logs& logs) const;

  // Queues or records the writing of a row, and counts the call. `logs` must have the entries the ring was made for.
  void publish(const Logs& logs) const;

  // The number of the row that the next publish to run will write. For callers that read the rows in order with read()
  // and then release each; check has_room() first. If logs of the row that is overwritten are still held (expect_logs),
  // their values are read first.
  std::int64_t expect() {
    if (!kept_.empty()) read_kept();
    return expected_++;
  }
  bool has_room() const noexcept { return expected_ - released_ < capacity_; }
  void release(std::int64_t row) noexcept { released_ = row + 1; }

  // The logs of the next row; their values arrive when the device has run the call. For callers that keep the logs. If
  // the ring is full, this reads the row that is overwritten, and so waits for the device.
  Logs expect_logs() { return expect_logs(constants_); }
  // The same, with the host numbers of `logs`.
  Logs expect_logs(const Logs& logs);

  bool ready(std::int64_t row) const noexcept { return ring_.has(row); }
  // Reads a row into `logs`, as host numbers and arrays, reusing its memory. `is_own`: an earlier read of this ring
  // filled `logs`. Error(device) if it is not ready.
  void read(std::int64_t row, Logs& logs, bool is_own = false) const;
  const LogSchema& schema() const noexcept { return constants_.schema(); }
  // Whether any entry is an output.
  bool has_outputs() const noexcept { return has_outputs_; }
  // The rows below this number have been written.
  std::int64_t published() const noexcept;

  std::int64_t capacity() const noexcept { return capacity_; }
  const Stream& stream() const noexcept { return stream_; }

 private:
  friend class LogRow;
  struct Array {
    std::size_t entry;
    DType dtype;
    Shape shape;
    std::int64_t offset;  // in a slot
  };

  LogRing(const Logs& logs, const Tensor& call, const Stream& stream, std::int64_t first);
  bool read_kept();
  void expect_written(std::int64_t row) const;
  HostArray copy_of(const Array& array, std::int64_t row) const;

  Stream stream_;
  Logs constants_;                    // host numbers; zeros for all other entries
  std::vector<std::size_t> scalars_;  // entries, one per column
  std::vector<Array> arrays_;
  bool has_outputs_ = false;
  std::int64_t capacity_ = kCapacity;
  Tensor call_;
  Buffer words_;  // pinned: the rows
  Buffer slots_;  // pinned: the rows' arrays
  ScalarRing ring_;
  ByteRing array_ring_;
  std::int64_t expected_ = 0;
  std::int64_t released_ = 0;                        // rows before it may be overwritten
  mutable std::atomic<std::int64_t> published_ = 0;  // rows below it had arrived when last checked
  std::vector<std::weak_ptr<const LogRow>> kept_;    // from expect_logs, by slot
};

}  // namespace giro
