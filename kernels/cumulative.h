#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

enum class Cumulative { sum, product };

// Along rows: y[r, i] = the sum or product of x[r, 0] to x[r, i] or, if reversed, of x[r, i] to x[r, L - 1]. x and y
// (R, L) have one dtype, any but boolean. Floats are computed in double and rounded once per element; integers wrap.
// The order of operations depends on L alone, so repeated runs give the same bits.
// Errors: shape_mismatch, dtype_mismatch, device_mismatch.
void cumulative(const Tensor& y, const Tensor& x, Cumulative of, bool reversed, const Stream& stream);

}  // namespace giro
