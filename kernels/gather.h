#pragma once

#include <cstddef>
#include <cstdint>

#include <giro/kernels/slots.h>
#include <giro/runtime/host_device.h>
#include <giro/runtime/rng.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Maps the positions of an endless sequence of epochs to rows of a dataset. Each epoch is a permutation keyed by (seed,
// epoch), or the rows in order.
struct RowOrder {
  std::int64_t size = 1;  // rows, at least 1
  std::uint64_t seed = 0;
  bool shuffled = false;

  GIRO_HOST_DEVICE std::int64_t operator()(std::int64_t position) const {
    // A single unsigned division: the cheapest for a GPU thread.
    const auto at = static_cast<std::uint64_t>(position), rows = static_cast<std::uint64_t>(size), epoch = at / rows;
    const std::uint64_t index = at - epoch * rows;
    return static_cast<std::int64_t>(shuffled ? permutation(static_cast<std::int64_t>(epoch))(index) : index);
  }
  // The same for `count` positions from `first` on.
  void rows(std::int64_t first, std::int64_t count, std::int64_t* out) const;

  GIRO_HOST_DEVICE KeyedPermutation permutation(std::int64_t epoch) const {
    return {static_cast<std::uint64_t>(size), Rng{seed, RngPurpose::shuffle, static_cast<std::uint64_t>(epoch)}};
  }
};

// out[..., r, ...] = src[..., indices[r], ...] along an axis. src (..., N, ...) and out (..., R, ...) have the same
// dtype, which may be any; indices u8, i32 or i64 (R,). Where an index is outside [0, N), the result is NaN, or 0 if it
// is not floating. Errors: shape_mismatch, dtype_mismatch, device_mismatch.
void gather_rows(const Tensor& out, const Tensor& src, const Tensor& indices, const Stream& stream,
                 std::size_t axis = 0);

// indices[r] = order(position + r). indices i64 (R,). The position is the i64 at the start of the call's slot, so each
// replay of a recorded graph gathers its own rows. Errors: shape_mismatch, dtype_mismatch, device_mismatch;
// invalid_argument for an order without rows.
void batch_indices(const Tensor& indices, const SlotRing& positions, const RowOrder& order, const Stream& stream);

}  // namespace giro
