#pragma once

#include <cstdint>

#include <giro/kernels/conv2d.h>
#include <giro/runtime/dtype.h>

#include "kernels/conv2d_op.h"

namespace giro {

// A convolution of few channels, such as the first of a model, moves far more memory than it computes. In 16 bits the
// CUDA backend computes it, and the gradient of its filters, with kernels of its own (cuda/few_channels_conv2d.cu),
// which can fuse an average pooling. They take pixels of y in squares of 2 x 2, and rows of squares in bands: what a
// band sees of x fits in shared memory.
struct FewChannels {
  static constexpr std::int64_t kFilters = 32;   // computed by a block
  static constexpr std::int64_t kMaxTerms = 31;  // elements of a filter

  std::int64_t band = 0;                         // rows of squares; 0: the kernels do not take this convolution
  std::int64_t band_height = 0, band_width = 0;  // pixels of x
  std::int64_t blocks = 0;                       // for each 32 filters

  // For y = conv2d(x, w). Depends on nothing but shapes, so that fused and separate ops sum in the same order.
  FewChannels(const Shape& x, const Shape& w, const Conv2dOptions& options, DType dtype);
  explicit FewChannels(const ops::Conv2d& op) : FewChannels(op.x.shape(), op.w.shape(), op.options, op.x.dtype()) {}
  explicit FewChannels(const ops::Conv2dBackward& op)
      : FewChannels(op.x_shape(), op.w_shape(), op.options, op.dz.dtype()) {}

  explicit operator bool() const { return band > 0; }
};

}  // namespace giro
