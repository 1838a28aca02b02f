#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Moments of values, of which there may be parts on several ranks. Means, standard deviations, counts and sums are f64
// and computed so. Errors: shape_mismatch, dtype_mismatch, device_mismatch.

// The mean and the population standard deviation, sqrt(mean(x^2) - mean(x)^2), of the values that count, and how many
// those are; scalars. values f32 of any shape; mask boolean, of the shape of values or of their first axes: what lies
// where it is false does not count, even if it is NaN. An empty mask: all count. Where none counts, both are NaN. In an
// order that depends only on the shape, so repeated runs give the same bits.
void moments(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& values, const Tensor& mask,
             const Stream& stream);

// sums (3,) = count * (mean, mean^2 + deviation^2, 1), which add up over parts; zeros where the count is 0. An empty
// deviation stands for 0.
void moment_sums(const Tensor& sums, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                 const Stream& stream);
// The backward pass, of factor * sums.
void moments_of_sums(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& sums,
                     double factor, const Stream& stream);

}  // namespace giro
