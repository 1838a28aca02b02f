#pragma once

#include <giro/kernels/conv2d.h>

namespace giro::cpu::winograd {

// Convolutions by Lavin and Gray, "Fast algorithms for convolutional neural networks", 2015: F(2 x 2, 3 x 3) makes a
// square of 2 x 2 outputs from one of 4 x 4 inputs with 16 multiplications in place of 36. The products are those of
// matrices, one for each of the 16 places; sums are f32, and their order does not depend on the number of threads.

// Whether it applies, and is the faster way: to f32, 3 x 3 taps, stride 1, and whole vectors of channels.
bool fits(const Shape& x, const Shape& w, const Shape& y, DType dtype, const Conv2dOptions& options);

// As in conv2d and conv2d_backward, for a convolution that fits.
void forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
             const Stream& stream);
void backward_data(const Tensor& dx, const Tensor& dz, const Tensor& w, const Conv2dOptions& options,
                   const Stream& stream);
void backward_weights(const Tensor& dw, const Tensor& dz, const Tensor& x, const Conv2dOptions& options,
                      const Stream& stream);

}  // namespace giro::cpu::winograd
