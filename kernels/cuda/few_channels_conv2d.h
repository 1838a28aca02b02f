#pragma once

#include <giro/runtime/stream.h>

#include "kernels/conv2d_op.h"

namespace giro::cuda {

// For convolutions that FewChannels (kernels/few_channels.h) accepts, on tensor cores, which sum in f32.
void few_channels_conv2d(const ops::Conv2d& op, const Stream& stream);
// Computes dw and, if it is given, db.
void few_channels_conv2d_backward_filter(const ops::Conv2dBackward& op, const Stream& stream);

}  // namespace giro::cuda
