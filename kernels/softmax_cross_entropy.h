#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Softmax cross-entropy with integer labels, and its gradient in the same pass:
//   losses[r]     = log(sum_c exp(logits[r, c])) - logits[r, labels[r]]
//   dlogits[r, c] = softmax(logits[r, :])[c] - (c == labels[r])
// logits f32, bf16 or f16 (R, C); dlogits (R, C) f32 or of the logits' dtype, may be empty or be logits; losses f32
// (R,); labels u8, i32 or i64 (R,). Everything is computed in f32; dlogits is rounded once.
// A label outside [0, C) makes its loss and its gradient row NaN.
// Errors: shape_mismatch, dtype_mismatch, device_mismatch.
void softmax_cross_entropy(const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& labels,
                           const Stream& stream);

}  // namespace giro
