#pragma once

#include <giro/kernels/conv2d.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "kernels/conv2d_op.h"

// giro's own kernels for convolutions.
namespace giro::cuda {

// Convolution as a matrix product, without a matrix of patches, in true f32. For convolutions that cuDNN declines. Any
// shape, padding and dilation, and up to 65535 groups; the same bits every time. Shapes and dtypes as for giro::conv2d;
// no tensor may be empty.

// With the bias b, unless it is empty, and then a relu if `relu`.
void tiled_conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, bool relu,
                  const Conv2dOptions& options, const Stream& stream);
void tiled_conv2d_backward_data(const Tensor& dx, const Tensor& dz, const Tensor& w, const Conv2dOptions& options,
                                const Stream& stream);
void tiled_conv2d_backward_filter(const Tensor& dw, const Tensor& dz, const Tensor& x, const Conv2dOptions& options,
                                  const Stream& stream);

// For convolutions that FewChannels (kernels/few_channels.h) accepts, on tensor cores, which sum in f32.
void few_channels_conv2d(const ops::Conv2d& op, const Stream& stream);
// Computes dw and, if it is given, db.
void few_channels_conv2d_backward_filter(const ops::Conv2dBackward& op, const Stream& stream);

}  // namespace giro::cuda
