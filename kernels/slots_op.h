#pragma once

#include <cstdint>
#include <string_view>

#include <giro/kernels/slots.h>

#include "kernels/op_cost.h"

namespace giro::ops {

// Throws what is wrong with a ring, and with bytes in each of its slots. Pinned slots are in host memory.
void check_ring(std::string_view op, const ByteRing& ring, const Stream& stream, std::int64_t offset = 0,
                std::int64_t bytes = 0);

// read_slot copies the bytes from `offset` on of the call's slot to `out`; write_slot copies `in` there.
struct ReadSlot {
  static constexpr const char* kName = "read_slot";
  static constexpr const char* kArguments = "slots: u8([a][b]), call: i64() -> out: *";
  Out out{};
  In slots{}, call{};
  std::int64_t offset = 0;

  ByteRing ring() const { return {slots, call}; }
  static constexpr bool kTakesHostMemory = true;
  void check(std::string_view name, const Stream& stream) const {
    detail::expect_on_device(name, out, stream.device());
    check_ring(name, ring(), stream, offset, bytes_of(out));
  }
  std::int64_t bytes() const { return 2 * bytes_of(out); }
};

struct WriteSlot {
  static constexpr const char* kName = "write_slot";
  static constexpr const char* kArguments = "call: i64(), in: * -> slots: u8([a][b])";
  InOut slots{};  // only part of one slot changes
  In call{}, in{};
  std::int64_t offset = 0;

  ByteRing ring() const { return {slots, call}; }
  static constexpr bool kTakesHostMemory = true;
  void check(std::string_view name, const Stream& stream) const {
    detail::expect_on_device(name, in, stream.device());
    check_ring(name, ring(), stream, offset, bytes_of(in));
  }
  std::int64_t bytes() const { return 2 * bytes_of(in); }
};

}  // namespace giro::ops
