#pragma once

#include <giro/kernels/conv2d.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::cpu::winograd {

// Convolutions by Lavin and Gray, "Fast algorithms for convolutional neural networks", 2015: F(2 x 2, 3 x 3) computes 2
// x 2 outputs from 4 x 4 inputs with 16 multiplications instead of 36, as one matrix product for each of the 16 places.
// Sums are f32, and their order does not depend on the number of threads.

// Whether this applies and is faster: f32, 3 x 3 taps, stride 1, and whole vectors of channels.
bool fits(const Shape& x, const Shape& w, const Shape& y, DType dtype, const Conv2dOptions& options);

// As in conv2d and conv2d_backward, for a convolution that fits.
void forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
             const Stream& stream);
void backward_data(const Tensor& dx, const Tensor& dz, const Tensor& w, const Conv2dOptions& options,
                   const Stream& stream);
void backward_weights(const Tensor& dw, const Tensor& dz, const Tensor& x, const Conv2dOptions& options,
                      const Stream& stream);

}  // namespace giro::cpu::winograd
