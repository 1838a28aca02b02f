#include <giro/loop/log/log_ring.h>

#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include <giro/runtime/error.h>
#include <giro/runtime/graph.h>

namespace giro {
namespace {
constexpr std::size_t kHeader = 64;  // the count has a cache line of its own
}

bool LogRow::ready() const { return !ring_ || ring_->published() > index_; }

double LogRow::value(std::size_t column) const {
  read();
  return values_.at(column);
}

void LogRow::read() const {
  if (!ring_) return;
  if (!ready()) {
    ring_->stream_.synchronize();
    if (!ready()) {
      throw Error(ErrorCode::device,
                  fmt::format("row {} of the log ring was never written: {} rows were", index_, ring_->published()));
    }
  }
  const auto columns = static_cast<std::int64_t>(ring_->columns_);
  const double* row = ring_->ring_.values + index_ % LogRing::kCapacity * columns;
  values_.assign(row, row + columns);
  ring_.reset();
}

std::shared_ptr<LogRing> LogRing::create(std::size_t columns, const Stream& stream) {
  if (columns > RowRing::kMaxColumns) {
    throw Error(ErrorCode::invalid_argument, fmt::format("a step logs {} scalars, expected at most {}", columns,
                                                         static_cast<int>(RowRing::kMaxColumns)));
  }
  return std::shared_ptr<LogRing>(new LogRing(columns, stream));
}

LogRing::LogRing(std::size_t columns, const Stream& stream)
    : columns_(columns),
      stream_(stream),
      shared_(Buffer::allocate(stream.device(),
                               kHeader + static_cast<std::size_t>(kCapacity) * columns * sizeof(double),
                               MemoryKind::pinned)),
      counter_storage_(Buffer::allocate(stream.device(), sizeof(std::int64_t))),
      counter_(counter_storage_.data(), DType::i64, {}, stream.device()),
      rows_(static_cast<std::size_t>(kCapacity)) {
  std::memset(shared_.data(), 0, shared_.size());
  ring_.published = static_cast<std::int64_t*>(shared_.data());
  ring_.values = reinterpret_cast<double*>(static_cast<char*>(shared_.data()) + kHeader);
  ring_.capacity = kCapacity;
  // On a stream of its own: this one may be recording.
  const OutsideRecording outside;
  const Stream setup(stream.device());
  setup.fill(counter_.raw(), 0, counter_.bytes());
  setup.synchronize();
}

void LogRing::publish(const std::vector<Tensor>& scalars) const { publish_row(ring_, counter_, scalars, stream_); }

std::shared_ptr<const LogRow> LogRing::expect() {
  auto& slot = rows_[static_cast<std::size_t>(expected_ % kCapacity)];
  // Reading this slot's old row also means that the device is less than a round behind.
  if (const auto old = slot.lock()) {
    old->read();
  } else if (expected_ >= kCapacity && published() <= expected_ - kCapacity) {
    stream_.synchronize();
  }
  const std::shared_ptr<const LogRow> row(new LogRow(shared_from_this(), expected_++));
  slot = row;
  return row;
}

std::int64_t LogRing::published() const {
  return std::atomic_ref<std::int64_t>(*ring_.published).load(std::memory_order_acquire);
}

}  // namespace giro
