#pragma once

#include <array>
#include <cstdint>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cuda {

// pad_before: zeros before the image. The shapes determine how many follow after it.
struct Window {
  std::array<std::int64_t, 2> stride, pad_before;
};

// Convolution as a matrix product, without a matrix of patches, in true f32. For convolutions that cuDNN declines. Any
// shape and padding; the same bits every time. Shapes and dtypes as for giro::conv2d; no tensor may be empty.

// With the bias b, unless it is empty, and then a relu if `relu`.
void tiled_conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, bool relu, const Window& window,
                  const Stream& stream);
void tiled_conv2d_backward_data(const Tensor& dx, const Tensor& dz, const Tensor& w, const Window& window,
                                const Stream& stream);
void tiled_conv2d_backward_filter(const Tensor& dw, const Tensor& dz, const Tensor& x, const Window& window,
                                  const Stream& stream);

}  // namespace giro::cuda
