#pragma once

#include <giro/runtime/dtype.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// The dtype of sums of updates: f32 for bf16 and f16, i64 for integers, else the same.
DType dtype_of_sums(DType updates);

// sums[n, ...] is the sum of all updates[r, ...] with indices[r] == n, or 0 if there are none; an index outside [0, N)
// is ignored. updates (R, ...) are f32, bf16, f16, f64 or i64; sums (N, ...) are of dtype_of_sums; indices u8, i32 or
// i64 (R,). The updates are added by index, in an order that depends on the indices alone, so repeated runs give the
// same bits. With `are_distinct`, no index may occur twice; this saves sorting them. Errors: shape_mismatch,
// dtype_mismatch, device_mismatch.
void scatter_add(const Tensor& sums, const Tensor& updates, const Tensor& indices, bool are_distinct,
                 const Stream& stream);

}  // namespace giro
