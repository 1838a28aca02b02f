#include "runtime/held_values.h"

#include <algorithm>

#include "runtime/backend.h"
#include "runtime/stream_recording.h"

namespace giro::detail {
namespace {

MemoryRange range_of(const Tensor& tensor) {
  const auto* const begin = static_cast<const std::byte*>(tensor.place());
  return {begin, begin + tensor.bytes()};
}

std::uint64_t recording_on(const Stream& stream) { return stream.is_recording() ? StreamRecording::current()->id : 0; }

}  // namespace

Tensor HeldValue::now(const Tensor& part) const {
  const auto size = static_cast<std::int64_t>(size_of(part.dtype()));
  const std::int64_t first = (static_cast<const std::byte*>(part.place()) - memory.first) / size;
  const Tensor whole(copied, part.dtype(), {(memory.second - memory.first) / size});
  return whole.rows(first, first + part.count()).reshape(part.shape());
}

std::shared_ptr<const HeldValue> HeldValues::hold(const Tensor& leaf, const Stream& stream) {
  const MemoryRange range = range_of(leaf);
  const std::uint64_t recording = recording_on(stream);
  const auto [first, last] = values_.equal_range(range.first);
  for (auto each = first; each != last; ++each) {
    std::shared_ptr<HeldValue> found = each->second.lock();
    const bool is_there = found && !found->copied && !found->owner.expired();
    if (is_there && found->memory == range && found->recording == recording) return found;
  }
  if (values_.size() >= 2 * swept_ + 64) {
    std::erase_if(values_, [](const auto& each) { return each.second.expired(); });
    swept_ = values_.size();
  }
  const auto value = std::make_shared<HeldValue>(HeldValue{range, *leaf.leaf_memory(), recording});
  values_.emplace(range.first, value);
  longest_ = std::max(longest_, leaf.bytes());
  return value;
}

void HeldValues::before_write(MemoryRange memory, const Stream& stream) {
  if (values_.empty()) return;
  const std::uint64_t recording = recording_on(stream);
  auto each = values_.lower_bound(memory.first - longest_);
  while (each != values_.end() && each->first < memory.second) {
    std::shared_ptr<HeldValue> value = each->second.lock();
    if (value && value->owner.expired()) value = nullptr;  // another value may lie there by now
    const bool is_written = value && value->recording == recording && memory.first < value->memory.second;
    if (is_written) {
      const auto bytes = static_cast<std::size_t>(value->memory.second - value->memory.first);
      const auto copied = std::make_shared<const Buffer>(stream.allocate(bytes));
      const Shape shape{static_cast<std::int64_t>(bytes)};
      auto* const from = const_cast<std::byte*>(value->memory.first);
      queue_copy(Tensor(copied, DType::u8, shape), Tensor(from, DType::u8, shape, stream.device()), stream);
      value->copied = copied;
    }
    each = is_written || !value ? values_.erase(each) : std::next(each);
  }
}

void before_write(const Tensor& tensor, const Stream& stream) {
  if (tensor.bytes() > 0) stream.impl().held_values.before_write(range_of(tensor), stream);
}

}  // namespace giro::detail
