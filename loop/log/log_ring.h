#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <giro/kernels/publish.h>
#include <giro/kernels/slots.h>
#include <giro/loop/log/log_row.h>
#include <giro/loop/log/logs.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// The way of a step's logs to the host: a ring of rows in memory that both reach. Call number c of the step writes row
// c, its scalars and the arrays among its outputs, and the host reads it some time after. The device never waits for
// the host; so the host must not queue a call whose row would overwrite one that is still to be read (has_room).
class LogRing : public std::enable_shared_from_this<LogRing> {
 public:
  static constexpr std::int64_t kCapacity = 1024;                      // rows, and fewer where
  static constexpr std::int64_t kArrayBytes = std::int64_t{64} << 20;  // their arrays would take more than that

  // For logs with these entries: scalars on the device, arrays among the outputs, and numbers of the host, which stay
  // what they are here. `call` is an i64 scalar on the device, which is `first` when the first row is written.
  // Errors: shape_mismatch naming an entry that is an array but not an output; out_of_memory.
  static std::shared_ptr<LogRing> create(const Logs& logs, const Tensor& call, const Stream& stream,
                                         std::int64_t first = 0);
  // Whether these logs have the same entries, on the device and of the host.
  bool takes(const Logs& logs) const;

  // Queues, or records, the writing of a row, and counts the call. The entries are those the ring was made for.
  void publish(const Logs& logs) const;

  // The number of the row that the next publish to be run will write. For whoever reads rows with read, in their order,
  // and lets go of each: that there is room has to be seen to before.
  // Where somebody keeps logs of the row that lies in its place, those are read first.
  std::int64_t expect() {
    if (!kept_.empty()) read_kept();
    return expected_++;
  }
  bool has_room() const noexcept { return expected_ - released_ < capacity_; }
  void release(std::int64_t row) noexcept { released_ = row + 1; }

  // The logs of the next row, whose values arrive when the device gets there: for whoever keeps them as long as he
  // likes. Where the ring is full it reads the row that would be overwritten, and so waits for the device.
  Logs expect_logs() { return expect_logs(constants_); }
  // The same with the numbers of the host of `logs`.
  Logs expect_logs(const Logs& logs);

  bool ready(std::int64_t row) const noexcept { return published() > row; }
  // The logs of a row that is ready, as numbers and arrays of the host, into memory that is used again: `is_own` if
  // `logs` are what read has filled before.
  void read(std::int64_t row, Logs& logs, bool is_own = false) const;
  // Whether any entry is an output.
  bool has_outputs() const noexcept { return has_outputs_; }
  // Calls that have run to their end.
  std::int64_t published() const noexcept {
    return std::atomic_ref<std::int64_t>(*ring_.published).load(std::memory_order_acquire);
  }

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
  const double* row(std::int64_t number) const noexcept;
  bool read_kept();
  HostArray copy_of(const Array& array, std::int64_t row) const;

  Stream stream_;
  Logs constants_;                    // numbers of the host, and zeros in the place of the rest
  std::vector<std::size_t> scalars_;  // entries: a column each
  std::vector<Array> arrays_;
  bool has_outputs_ = false;
  std::int64_t capacity_ = kCapacity;
  Tensor call_;
  Buffer shared_;  // pinned: the count of published rows, then the rows
  Buffer slots_;   // pinned: the rows' arrays
  RowRing ring_;
  SlotRing array_ring_;
  std::int64_t expected_ = 0;
  std::int64_t released_ = 0;                      // rows before it may be overwritten
  std::vector<std::weak_ptr<const LogRow>> kept_;  // of expect_logs, by their place in the ring
};

}  // namespace giro
