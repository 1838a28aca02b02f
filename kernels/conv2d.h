#pragma once

#include <array>
#include <cstdint>

#include <giro/kernels/math.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1};      // height, width
  std::array<std::int64_t, 2> pad_before{0, 0};  // top, left: zeros
  std::array<std::int64_t, 2> pad_after{0, 0};   // bottom, right
  bool operator==(const Conv2dOptions&) const = default;
};

// The padding that makes an output axis ceil(input / stride) long, the odd zero at the end (as XLA and TensorFlow
// count "SAME").
Conv2dOptions same_padding(std::int64_t height, std::int64_t width, std::array<std::int64_t, 2> window,
                           std::array<std::int64_t, 2> stride);

// The shape of y. Errors: shape_mismatch (channels differ, window larger than the padded image), invalid_argument.
Shape conv2d_shape(const Shape& x, const Shape& w, const Conv2dOptions& options);

// Cross-correlation over images, as the field calls convolution; outputs alias no input.
// x (N, H, W, C), w (O, KH, KW, C), b (O) or empty, y (N, OH, OW, O). x, w, y and their gradients dx and dz are all
// f32, all bf16 or all f16; b, db and dw that or f32. Sums are f32. Errors: shape_mismatch, dtype_mismatch,
// device_mismatch; device for 16 bits on a CPU for which oneDNN has no such convolutions.
void conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options, Math math,
            const Stream& stream);
inline void conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
                   const Stream& stream) {
  conv2d(y, x, w, b, options, Math::f32, stream);
}

// Given dz (N, OH, OW, O), the gradient of y: dx, dw and db of the shapes of x, w and b. An empty output is
// not computed.
void conv2d_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                     const Tensor& w, const Conv2dOptions& options, Math math, const Stream& stream);
inline void conv2d_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                            const Tensor& w, const Conv2dOptions& options, const Stream& stream) {
  conv2d_backward(dx, dw, db, dz, x, w, options, Math::f32, stream);
}

}  // namespace giro
