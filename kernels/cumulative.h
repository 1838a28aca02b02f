#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

enum class Cumulative { sum, product };

// Along rows: y[r, i] = what x[r, 0] to x[r, i] come to, or, reversed, x[r, i] to x[r, L - 1]. x and y (R, L) of one
// dtype, any but boolean. Floating ones are computed in double and rounded once for each element, in an order that
// follows from L alone, so repeated runs give the same bits; integers wrap.
// Errors: shape_mismatch, dtype_mismatch, device_mismatch.
void cumulative(const Tensor& y, const Tensor& x, Cumulative of, bool reversed, const Stream& stream);

}  // namespace giro
