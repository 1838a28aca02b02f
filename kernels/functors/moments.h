#pragma once

#include <cmath>
#include <cstdint>

#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

// Arithmetic of moments, once for both backends.
namespace giro::functors {

struct MomentSums {
  double *mean, *deviation, *count;  // any may be null
  GIRO_HOST_DEVICE void store(double sum, double squares, double n) const {
    const double m = sum / n, variance = squares / n - m * m;
    if (mean != nullptr) *mean = m;
    // Not std::max: a NaN stays one.
    if (deviation != nullptr) *deviation = std::sqrt(variance < 0 ? 0 : variance);
    if (count != nullptr) *count = n;
  }
};

struct ToMomentSums {
  double* sums;
  const double *mean, *deviation, *count;
  GIRO_HOST_DEVICE void operator()(std::int64_t) const {
    const double n = *count, d = deviation != nullptr ? *deviation : 0;
    sums[0] = n > 0 ? n * *mean : 0;
    sums[1] = n > 0 ? n * (*mean * *mean + d * d) : 0;
    sums[2] = n;
  }
};

struct FromMomentSums {
  MomentSums out;
  const double* sums;
  double factor;
  GIRO_HOST_DEVICE void operator()(std::int64_t) const {
    out.store(factor * sums[0], factor * sums[1], factor * sums[2]);
  }
};

inline double* number_of(const Tensor& scalar) { return scalar ? scalar.data<double>() : nullptr; }

template <class ForEach>
void moment_sums(const ForEach& for_each, const Tensor& sums, const Tensor& mean, const Tensor& deviation,
                 const Tensor& count) {
  for_each(1, ToMomentSums{number_of(sums), number_of(mean), number_of(deviation), number_of(count)});
}

template <class ForEach>
void moments_of_sums(const ForEach& for_each, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                     const Tensor& sums, double factor) {
  for_each(1, FromMomentSums{{number_of(mean), number_of(deviation), number_of(count)}, sums.data<double>(), factor});
}

}  // namespace giro::functors
