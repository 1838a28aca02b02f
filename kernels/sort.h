#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// The order of each row: indices[r, i] is the position in x[r, :] of its i-th smallest element or, if descending, of
// its i-th largest one. Equal elements keep their order. NaN is larger than every number, -0 equals 0. x (R, L) of any
// dtype; indices i64 (R, K) with K <= L: only the first K are written.
// Errors: shape_mismatch, also for rows of 2^32 elements or more; dtype_mismatch, device_mismatch.
void argsort(const Tensor& indices, const Tensor& x, bool descending, const Stream& stream);

}  // namespace giro
