#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <giro/kernels/row_order.h>
#include <giro/kernels/slots.h>

#include "kernels/op_cost.h"
#include "kernels/slots_op.h"

namespace giro::ops {

// indices[r] = order(position + r). The position is the i64 at the start of the call's slot, so each replay of a
// recorded graph gathers its own rows.
struct BatchIndices {
  static constexpr const char* kName = "batch_indices";
  static constexpr const char* kArguments = "slots: u8([a][b]), call: i64() -> indices: i64([r])";
  Out indices{};
  In slots{}, call{};
  RowOrder order{};

  ByteRing positions() const { return {slots, call}; }
  static constexpr bool kTakesHostMemory = true;
  void check(std::string_view name, const Stream& stream) const;
  std::int64_t bytes() const { return bytes_of(indices); }
};

// One array of a batch: out[r, ...] = src[row, ...] or, for bytes to f32, bf16 or f16, factor * src[row, ...].
struct GatheredArray {
  Out out{};  // (R, ...)
  In src{};   // (N, ...), of the same dtype, or u8
  float factor = 1;
};

// Gathers rows of several arrays at once: rows order(position + r), with the position as in batch_indices. At most
// kMax arrays, all with the same number of rows.
struct GatherBatch {
  static constexpr const char* kName = "gather_batch";
  static constexpr std::size_t kMax = 8;
  In slots{}, call{};
  std::vector<GatheredArray> arrays{};
  RowOrder order{};

  ByteRing positions() const { return {slots, call}; }
  double flops() const {
    double flops = 0;
    for (const GatheredArray& array : arrays) flops += array.out.dtype() != array.src.dtype() ? elements(array.out) : 0;
    return flops;
  }
  std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const auto& [out, src, factor] : arrays) {
      bytes += bytes_of(out) + out.count() * static_cast<std::int64_t>(size_of(src.dtype()));
    }
    return bytes;
  }
};

}  // namespace giro::ops
