#include <giro/loop/log/log_ring.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/ops.h"
#include "runtime/faults.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

std::int64_t slot_bytes(std::size_t bytes) {
  const auto size = std::max<std::int64_t>(static_cast<std::int64_t>(bytes), 1);
  return (size + ByteRing::kAlignment - 1) / ByteRing::kAlignment * ByteRing::kAlignment;
}

// An array of a row.
class RowArray final : public HostArray::Arriving {
 public:
  RowArray(std::shared_ptr<const LogRow> row, std::size_t entry) : row_(std::move(row)), entry_(entry) {}
  bool ready() const override { return row_->ready(); }
  Tensor tensor() const override { return row_->array(entry_).tensor(); }

 private:
  std::shared_ptr<const LogRow> row_;
  std::size_t entry_;
};

}  // namespace

bool LogRow::ready() const { return !ring_ || ring_->ready(number_); }

const std::vector<LogValue>& LogRow::read() const {
  if (ring_) {
    if (!ready()) ring_->stream_.synchronize();
    ring_->read(number_, logs_);
    ring_.reset();
  }
  return std::as_const(logs_).values();
}

std::shared_ptr<LogRing> LogRing::create(const Logs& logs, const Tensor& call, const Stream& stream,
                                         std::int64_t first) {
  return std::shared_ptr<LogRing>(new LogRing(logs, call, stream, first));
}

LogRing::LogRing(const Logs& logs, const Tensor& call, const Stream& stream, std::int64_t first)
    : stream_(stream), constants_(logs), call_(call), expected_(first), released_(first), published_(first) {
  std::int64_t bytes = 0;  // per slot
  for (std::size_t i = 0; i < logs.values().size(); ++i) {
    has_outputs_ |= logs.schema()[i].collection == "outputs";
    const nn::Var* const var = logs.values()[i].scalar();
    if (var == nullptr) continue;
    const Tensor& value = var->value();
    if (logs.values()[i].is_scalar()) {
      scalars_.push_back(i);
    } else if (logs.schema()[i].collection == "outputs") {
      arrays_.push_back({i, value.dtype(), value.shape(), bytes});
      bytes += slot_bytes(value.bytes());
    } else {
      throw_error(ErrorCode::shape_mismatch, "the log entry '{}' is {}, expected a scalar", logs.schema()[i].path(),
                  to_string(value));
    }
    constants_.values()[i] = 0.0;
  }
  if (bytes > 0) {
    capacity_ = std::clamp<std::int64_t>(kArrayBytes / bytes, 2, kCapacity);
    capacity_ = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(capacity_)));
    slots_ = Buffer::allocate(stream.device(), static_cast<std::size_t>(capacity_ * bytes), MemoryKind::pinned);
    array_ring_ = {Tensor(slots_.data(), DType::u8, {capacity_, bytes}, Device::cpu()), call_};
  }
  ring_ = {.capacity = capacity_,
           .columns = static_cast<std::int64_t>(scalars_.size()),
           .is_release = bytes > 0};  // the arrays arrive before the row
  words_ =
      Buffer::allocate(stream.device(), static_cast<std::size_t>(capacity_ * ring_.row_words()) * sizeof(std::uint64_t),
                       MemoryKind::pinned);
  ring_.words = static_cast<std::uint64_t*>(words_.data());
  ring_.begin(first);
}

bool LogRing::takes(const Logs& logs) const {
  if (logs.schema() != constants_.schema()) return false;
  std::size_t scalar = 0, array = 0;
  for (std::size_t i = 0; i < logs.values().size(); ++i) {
    const nn::Var* const var = logs.values()[i].scalar();
    const bool sends_scalar = scalar < scalars_.size() && scalars_[scalar] == i;
    const bool sends_array = array < arrays_.size() && arrays_[array].entry == i;
    if ((var != nullptr) != (sends_scalar || sends_array)) return false;
    if (sends_scalar && !logs.values()[i].is_scalar()) return false;
    if (sends_array && (var->shape() != arrays_[array].shape || var->dtype() != arrays_[array].dtype)) return false;
    scalar += sends_scalar ? 1 : 0;
    array += sends_array ? 1 : 0;
  }
  return true;
}

void LogRing::publish(const Logs& logs) const {
  const auto tensor = [&](std::size_t entry) { return logs.values()[entry].scalar()->value(); };
  for (const Array& array : arrays_) {
    const Tensor value = tensor(array.entry);
    if (value.count() == 0) continue;
    queue(ops::WriteSlot{array_ring_.slots, array_ring_.call, value, array.offset}, stream_);
  }
  std::vector<Tensor> scalars;
  for (const std::size_t entry : scalars_) scalars.push_back(tensor(entry));
  publish_row(ring_, call_, scalars, stream_);
}

Logs LogRing::expect_logs(const Logs& constants) {
  kept_.resize(static_cast<std::size_t>(capacity_));
  // Reading the row that is overwritten also ensures that the device is less than one round behind.
  if (!read_kept() && !ready(expected_ - capacity_)) stream_.synchronize();
  auto& slot = kept_[static_cast<std::size_t>(expected_ % capacity_)];
  const std::shared_ptr<const LogRow> row(new LogRow(shared_from_this(), expected_++));
  released_ = expected_;
  slot = row;

  Logs logs = constants;
  for (const std::size_t entry : scalars_) logs.values_[entry] = LogValue(row, entry);
  for (const Array& array : arrays_) {
    logs.values_[array.entry] = HostArray(array.dtype, array.shape, std::make_shared<const RowArray>(row, array.entry));
  }
  return logs;
}

// Reads the row that the next one overwrites if its logs are still held. Returns whether they are.
bool LogRing::read_kept() {
  const auto row = kept_[static_cast<std::size_t>(expected_ % capacity_)].lock();
  if (row) row->read();
  return row != nullptr;
}

void LogRing::expect_written(std::int64_t row) const {
  if (!ready(row)) {
    throw_error(ErrorCode::device, "row {} of a step's logs was never written: {} rows were", row, published());
  }
  detail::Faults::expect_none_seen(stream_, call_, row);
}

void LogRing::read(std::int64_t number, Logs& logs, bool is_own) const {
  expect_written(number);
  if (!is_own) logs = constants_;
  std::uint64_t* const slot = ring_.slot(number);
  for (std::size_t i = 0; i < scalars_.size(); ++i) {
    logs.values_[scalars_[i]].set(ScalarRing::value(slot, static_cast<std::int64_t>(i)));
  }
  for (const Array& array : arrays_) logs.values_[array.entry] = copy_of(array, number);
}

std::int64_t LogRing::published() const noexcept {
  std::int64_t row = published_.load(std::memory_order_relaxed);
  while (ready(row)) ++row;
  published_.store(row, std::memory_order_relaxed);
  return row;
}

HostArray LogRing::copy_of(const Array& array, std::int64_t number) const {
  const auto* slot = static_cast<const char*>(slots_.data()) + number % capacity_ * array_ring_.bytes() + array.offset;
  const std::size_t bytes = static_cast<std::size_t>(array.shape.count()) * size_of(array.dtype);
  const auto memory = std::make_shared<const Buffer>(Buffer::allocate(Device::cpu(), bytes));
  if (bytes > 0) std::memcpy(memory->data(), slot, bytes);
  return HostArray(Tensor(memory->data(), array.dtype, array.shape, Device::cpu()), memory);
}

}  // namespace giro
