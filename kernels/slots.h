#pragma once

#include <cstdint>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Slots of equal size in bytes, used in turn: call number c, counted from 0, uses slot c % count. The number is read on
// the device, so a recorded step uses another slot at each replay.
struct ByteRing {
  static constexpr std::int64_t kAlignment = 64;  // bytes, of slots and of offsets within them

  Tensor slots{};  // u8 (count, bytes): on the device, or pinned memory of the host
  Tensor call{};   // i64 scalar on the device

  std::int64_t count() const noexcept { return slots.shape()[0]; }
  std::int64_t bytes() const noexcept { return slots.shape()[1]; }
};

// read_slot copies the bytes from `offset` on of the call's slot to `out`; write_slot copies `in` there. Any dtype.
// Errors: shape_mismatch for a ring that is not as above, invalid_argument for bytes that do not fit in a slot or an
// offset that is not a multiple of kAlignment, dtype_mismatch, device_mismatch.
void read_slot(const Tensor& out, const ByteRing& ring, std::int64_t offset, const Stream& stream);
void write_slot(const ByteRing& ring, std::int64_t offset, const Tensor& in, const Stream& stream);

}  // namespace giro
