#pragma once

#include <giro/kernels/math_mode.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Fully connected layer. Row-major; outputs alias no input. x, w, y and the gradients dx and dz are all f32, all bf16
// or all f16; b, db and dw have that dtype or f32. Sums are computed in f32. Errors: shape_mismatch, dtype_mismatch,
// device_mismatch; device for 16 bits where oneDNN has no such products for the CPU.

// y = x w + b. x (B, I), w (I, O), b (O) or empty, y (B, O).
void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, MathMode math, const Stream& stream);
inline void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Stream& stream) {
  dense(y, x, w, b, MathMode::f32, stream);
}

// Given dz (B, O), the gradient of x w + b:
//   dx = dz w^T (B, I), dw = x^T dz (I, O), db = sum over rows of dz (O). An empty output is not computed.
void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                    const Tensor& w, MathMode math, const Stream& stream);
inline void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                           const Tensor& w, const Stream& stream) {
  dense_backward(dx, dw, db, dz, x, w, MathMode::f32, stream);
}

}  // namespace giro
