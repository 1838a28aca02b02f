#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::ops {

// Moments of values, which may be spread over several ranks. Means, standard deviations, counts and sums are f64 and
// are computed in f64.

// The mean, the population standard deviation sqrt(mean((x - mean)^2)), unless that is empty, and the number of values
// used; all scalars. values f32 of any shape. mask boolean, with the shape of values or of their first axes: where it
// is false, a value is ignored, even if it is NaN. An empty mask uses all values. If none are used, mean and deviation
// are NaN. Error(shape_mismatch) for another mask. The order of the sums depends only on the shape, so repeated runs
// give the same bits.
void moments(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& values, const Tensor& mask,
             const Stream& stream);

// sums (3,) = count * (mean, mean^2 + deviation^2, 1), which can be added across ranks; zeros if the count is 0. An
// empty deviation means 0.
void moment_sums(const Tensor& sums, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                 const Stream& stream);
// The inverse: the moments from factor * sums.
void moments_of_sums(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& sums,
                     double factor, const Stream& stream);

}  // namespace giro::ops
