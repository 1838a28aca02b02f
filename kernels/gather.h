#pragma once

#include <cstddef>

#include <giro/kernels/row_order.h>
#include <giro/kernels/slots.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// out[..., r, ...] = src[..., indices[r], ...] along an axis. src (..., N, ...) and out (..., R, ...) have the same
// dtype, which may be any; indices u8, i32 or i64 (R,). Where an index is outside [0, N), the result is NaN, or 0 if it
// is not floating. Errors: shape_mismatch, dtype_mismatch, device_mismatch.
void gather_rows(const Tensor& out, const Tensor& src, const Tensor& indices, const Stream& stream,
                 std::size_t axis = 0);

// indices[r] = order(position + r). indices i64 (R,). The position is the i64 at the start of the call's slot, so each
// replay of a recorded graph gathers its own rows. Errors: shape_mismatch, dtype_mismatch, device_mismatch;
// invalid_argument for an order without rows.
void batch_indices(const Tensor& indices, const ByteRing& positions, const RowOrder& order, const Stream& stream);

}  // namespace giro
