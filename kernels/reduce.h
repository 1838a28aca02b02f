#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Reductions of f32, in an order that depends only on the shape, so repeated runs give the same bits.
// Errors: shape_mismatch, dtype_mismatch, device_mismatch, invalid_argument (mean of no elements).

// Of all elements of x: the sum and the mean, f32; the sum of squares, f64, so that none overflows. NaN if one is.
void sum(const Tensor& out, const Tensor& x, const Stream& stream);
void mean(const Tensor& out, const Tensor& x, const Stream& stream);
void sum_of_squares(const Tensor& out, const Tensor& x, const Stream& stream);

// Over rows: out[c] = sum of x[r, c]. x (R, C) f32, bf16 or f16, out (C) f32 or of that dtype.
void sum_rows(const Tensor& out, const Tensor& x, const Stream& stream);

}  // namespace giro
