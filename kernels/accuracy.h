#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// out = the fraction of rows where the largest logit (the first, if tied) is at the label. logits f32, bf16 or f16
// (R, C), R >= 1; labels u8, i32 or i64 (R,); out an f32 scalar. A row with a NaN counts as wrong.
// Errors: shape_mismatch, dtype_mismatch, device_mismatch, invalid_argument.
void accuracy(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream);

// The same per row: out f32 (R,), 1 where the row is right, else 0. R >= 0.
void correct(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream);

}  // namespace giro
