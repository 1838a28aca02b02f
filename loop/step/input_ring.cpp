// The inputs of a step's calls.

#include <giro/loop/step/input_ring.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/ops.h"
#include "loop/data/resident_rows.h"
#include "runtime/throw_error.h"

namespace giro {

Broadcasts::Broadcasts(std::initializer_list<std::pair<std::string, Number>> values)
    : memory_(std::make_shared<std::vector<std::int64_t>>(values.size())) {
  Batch::Features features;
  for (const auto& [name, number] : values) {
    const DType dtype = number.is_integer ? DType::i64 : DType::f32;
    features.emplace_back(name, Tensor(memory_->data() + features.size(), dtype, {}, Device::cpu()));
    write(features.size() - 1, number);
  }
  values_ = Batch(std::move(features), memory_);
}

Broadcasts::Broadcasts(const Elapsed& elapsed)
    : Broadcasts({{"steps", elapsed.steps}, {"samples", elapsed.samples}, {"time", elapsed.time()}}) {}

nn::Var Broadcasts::operator[](const std::string& name) const {
  const Batch::Features& known = values_.features();
  if (std::ranges::find(known, name, &Batch::Features::value_type::first) != known.end()) return values_[name];
  std::vector<std::string> names;
  for (const auto& [of_value, tensor] : known) names.push_back(of_value);
  throw_error(ErrorCode::not_found, "no broadcast '{}' in the call of the step, which has {}", name,
              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

void Broadcasts::set(const Elapsed& elapsed) {
  write(0, elapsed.steps);
  write(1, elapsed.samples);
  write(2, elapsed.time());
}

void Broadcasts::write(std::size_t value, const Number& number) {
  if (number.is_integer) {
    (*memory_)[value] = number.integer;
  } else {
    std::memcpy(memory_->data() + value, &number.number, sizeof number.number);
  }
}

namespace detail {

InputRing::InputRing(const Batch& like, const Broadcasts& broadcasts, const Tensor& call, const DeviceContext& context)
    : stream_(context.stream()) {
  const bool resident = like.resident_rows() != nullptr;
  const Batch::Features& values = broadcasts.values().features();
  if (resident) fixed_from_ = reserve(sizeof(std::int64_t), ByteRing::kAlignment).offset + ByteRing::kAlignment;
  for (const auto& [name, tensor] : like.features()) {
    features_.push_back(reserve(tensor.bytes(), ByteRing::kAlignment));
  }
  slot_bytes_ = std::max(slot_bytes_, fixed_from_);
  for (const auto& [name, tensor] : values) {
    if (!tensor.device().is_cpu()) {
      throw_error(ErrorCode::device_mismatch, "the broadcast '{}' is {}, expected host memory", name,
                  to_string(tensor));
    }
    const auto alignment = static_cast<std::int64_t>(size_of(tensor.dtype()));
    values_.push_back(reserve(tensor.bytes(), values_.empty() ? ByteRing::kAlignment : alignment));
  }
  slot_bytes_ = std::max<std::int64_t>(slot_bytes_ + ByteRing::kAlignment - 1, ByteRing::kAlignment) /
                ByteRing::kAlignment * ByteRing::kAlignment;

  const Device device = context.device();
  const bool in_place = device.is_cpu() && !features_.empty();
  const std::int64_t slots = in_place ? 1 : std::clamp<std::int64_t>(kMaxBytes / slot_bytes_, 2, kMaxSlots);
  const auto bytes = static_cast<std::size_t>(slots * slot_bytes_);
  staging_ = Buffer::allocate(device, bytes, MemoryKind::pinned);  // gaps between tensors are copied, but never read
  if (!device.is_cpu()) slots_ = Buffer::allocate(device, bytes);
  if (!device.is_cpu() && !features_.empty()) {
    copies_ = context.copy_stream();
    copied_.emplace(*copies_);
  }
  ring_ = {Tensor(slots_ ? slots_.data() : staging_.data(), DType::u8, {slots, slot_bytes_}, device), call};

  char* fixed = static_cast<char*>(ring_.slots.raw());
  if (!in_place) {
    fixed_ = Buffer::allocate(device, static_cast<std::size_t>(slot_bytes_));
    fixed = static_cast<char*>(fixed_.data());
    fixed_bytes_ = Tensor(fixed + fixed_from_, DType::u8, {slot_bytes_ - fixed_from_}, device);
  }
  const auto on_device = [&](const Batch::Features& tensors, const std::vector<Field>& fields) {
    Batch::Features result;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& [name, tensor] = tensors[i];
      result.emplace_back(name, Tensor(fixed + fields[i].offset, tensor.dtype(), tensor.shape(), device));
    }
    return Batch(std::move(result), stream_);
  };
  batch_ = on_device(like.features(), features_);
  broadcasts_ = Broadcasts(on_device(values, values_));
}

InputRing::Field InputRing::reserve(std::size_t bytes, std::int64_t alignment) {
  const std::int64_t offset = (slot_bytes_ + alignment - 1) / alignment * alignment;
  slot_bytes_ = offset + static_cast<std::int64_t>(bytes);
  return {offset, bytes};
}

void InputRing::fill(std::int64_t call, const Batch& batch, const Broadcasts& broadcasts) {
  char* const slot = static_cast<char*>(staging_.data()) + call % capacity() * slot_bytes_;
  if (batch.resident_rows()) {
    const std::int64_t position = batch.position();
    std::memcpy(slot, &position, sizeof position);
  }
  bool on_device = false;
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const Tensor& from = batch.features()[i].second;
    if (!from.device().is_cpu()) {
      on_device = true;
    } else if (features_[i].bytes > 0) {
      std::memcpy(slot + features_[i].offset, from.raw(), features_[i].bytes);
    }
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    std::memcpy(slot + values_[i].offset, broadcasts.values().features()[i].second.raw(), values_[i].bytes);
  }
  filled_ = call + 1;
  if (!copies_) return;
  upload(call % capacity(), 1, *copies_);
  if (!on_device) return;
  // Features already on the device were written by work on the step's stream.
  copied_->record(*copies_);
  stream_.wait(*copied_);
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const Tensor& from = batch.features()[i].second;
    if (from.device().is_cpu()) continue;
    char* const to = static_cast<char*>(slots_.data()) + call % capacity() * slot_bytes_ + features_[i].offset;
    stream_.copy(to, from.raw(), features_[i].bytes);
  }
}

void InputRing::upload(std::int64_t first_slot, std::int64_t slots, const Stream& stream) const {
  const std::int64_t offset = first_slot * slot_bytes_;
  stream.copy(static_cast<char*>(slots_.data()) + offset, static_cast<const char*>(staging_.data()) + offset,
              static_cast<std::size_t>(slots * slot_bytes_));
}

void InputRing::flush() {
  if (flushed_ == filled_) return;
  if (copies_) {
    copied_->record(*copies_);
    stream_.wait(*copied_);
  } else if (slots_ && (fixed_from_ > 0 || !values_.empty())) {
    const std::int64_t first = flushed_ % capacity(), count = filled_ - flushed_;
    const std::int64_t until_end = std::min(count, capacity() - first);
    upload(first, until_end, stream_);
    if (count > until_end) upload(0, count - until_end, stream_);
  }
  flushed_ = filled_;
}

void InputRing::take() const {
  if (!fixed_) return;
  if ((features_.empty() && values_.empty()) || fixed_bytes_.count() == 0) return;
  queue(ops::ReadSlot{fixed_bytes_, ring_.slots, ring_.call, fixed_from_}, stream_);
}

}  // namespace detail
}  // namespace giro
