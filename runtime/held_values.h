#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <giro/runtime/buffer.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::detail {

using MemoryRange = std::pair<const std::byte*, const std::byte*>;  // begin, end

// A value in a state's memory. Before work changes that memory, the value is copied for those who hold it.
struct HeldValue {
  MemoryRange memory;
  std::weak_ptr<const Buffer> owner;
  std::uint64_t recording = 0;                     // that reads it; 0: none
  std::shared_ptr<const Buffer> copied = nullptr;  // where it is now, if no longer there

  // Where a part of the memory's value is, once it was copied.
  Tensor now(const Tensor& part) const;
};

// The values held of memory that work on a stream may change.
class HeldValues {
 public:
  // What is in a part of a state's memory now.
  std::shared_ptr<const HeldValue> hold(const Tensor& leaf, const Stream& stream);
  // Call before work is queued, or recorded, that writes this memory. Work that is being recorded will run later, and
  // repeatedly: it copies only what its recording reads.
  void before_write(MemoryRange memory, const Stream& stream);
  bool is_empty() const noexcept { return values_.empty(); }

 private:
  std::multimap<const std::byte*, std::weak_ptr<HeldValue>> values_;  // by where they begin
  std::size_t longest_ = 0;                                           // in bytes
  std::size_t swept_ = 0;                                             // how many were left when the others were removed
};

// The same for the values held on that stream.
void before_write(const Tensor& tensor, const Stream& stream);

}  // namespace giro::detail
