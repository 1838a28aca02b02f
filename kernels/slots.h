#pragma once

#include <cstdint>

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

}  // namespace giro
