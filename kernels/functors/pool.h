#pragma once

#include <cstdint>

#include <giro/kernels/pool.h>
#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

#include "kernels/functors/activation.h"

namespace giro::functors {

// Whether a window's largest value is this one. A NaN is larger than every number, and one NaN is like another.
GIRO_HOST_DEVICE inline bool is_largest(float value, float largest) {
  return value == largest || (value != value && largest != largest);
}

// dx[i] gathers the gradient of every window in which x[i] is the first largest value.
struct MaxPoolBackward {
  float* dx;
  const float *dy, *x, *y;
  std::int64_t height, width, channels, out_height, out_width;
  std::int64_t window_h, window_w, stride_h, stride_w;

  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t c = i % channels, w = i / channels % width, h = i / (channels * width) % height;
    const std::int64_t n = i / (channels * width * height);
    const std::int64_t first_oh = h < window_h ? 0 : (h - window_h) / stride_h + 1;
    const std::int64_t first_ow = w < window_w ? 0 : (w - window_w) / stride_w + 1;
    float sum = 0;
    for (std::int64_t oh = first_oh; oh < out_height && oh * stride_h <= h; ++oh) {
      for (std::int64_t ow = first_ow; ow < out_width && ow * stride_w <= w; ++ow) {
        const std::int64_t o = ((n * out_height + oh) * out_width + ow) * channels + c;
        if (is_largest(x[i], y[o]) && is_first(n, oh, ow, h, w, c, y[o])) sum += dy[o];
      }
    }
    dx[i] = sum;
  }

  GIRO_HOST_DEVICE bool is_first(std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t h, std::int64_t w,
                                 std::int64_t c, float largest) const {
    for (std::int64_t row = oh * stride_h; row <= h; ++row) {
      const std::int64_t end = row == h ? w : ow * stride_w + window_w;
      for (std::int64_t column = ow * stride_w; column < end; ++column) {
        if (is_largest(x[((n * height + row) * width + column) * channels + c], largest)) return false;
      }
    }
    return true;
  }
};

// Windows tile the images: they begin where the one before ends.
template <class F>
struct ActivationAveragePool {
  float* y;
  const float *z, *b;                                // b: null for none
  std::int64_t width, channels, window_h, window_w;  // of z

  ActivationAveragePool(const Tensor& y, const Tensor& z, const Tensor& b, const PoolOptions& options)
      : y(y.data<float>()),
        z(z.data<float>()),
        b(b ? b.data<float>() : nullptr),
        width(z.shape()[2]),
        channels(z.shape()[3]),
        window_h(options.window[0]),
        window_w(options.window[1]) {}

  GIRO_HOST_DEVICE void operator()(std::int64_t o) const {
    const std::int64_t out_width = width / window_w;
    const std::int64_t c = o % channels, w = o / channels % out_width, row = o / (channels * out_width);
    const float* const window = z + (row * window_h * width + w * window_w) * channels + c;
    float sum = 0;
    for (std::int64_t i = 0; i < window_h; ++i) {
      for (std::int64_t j = 0; j < window_w; ++j) {
        const float value = window[(i * width + j) * channels];
        sum += F::value(b == nullptr ? value : value + b[c]);
      }
    }
    y[o] = sum / static_cast<float>(window_h * window_w);
  }
};

// Row r of x lies in row r / window_h of y, whatever image it is of.
template <class F>
struct AveragePoolActivationBackward {
  float* dz;
  const float *dy, *x, *b;
  std::int64_t width, channels, window_h, window_w;
  float factor;

  AveragePoolActivationBackward(const Tensor& dz, const Tensor& dy, const Tensor& x, const Tensor& b,
                                const PoolOptions& options)
      : dz(dz.data<float>()),
        dy(dy.data<float>()),
        x(x.data<float>()),
        b(b ? b.data<float>() : nullptr),
        width(dz.shape()[2]),
        channels(dz.shape()[3]),
        window_h(options.window[0]),
        window_w(options.window[1]),
        factor(1.0f / static_cast<float>(window_h * window_w)) {}

  // Writes element i, and returns it.
  GIRO_HOST_DEVICE float operator()(std::int64_t i) const {
    const std::int64_t c = i % channels, w = i / channels % width, row = i / (channels * width);
    const std::int64_t o = (row / window_h * (width / window_w) + w / window_w) * channels + c;
    return dz[i] = factor * dy[o] * F::slope(b == nullptr ? x[i] : x[i] + b[c]);
  }
};

template <class ForEach>
void max_pool_backward(const ForEach& for_each, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y,
                       const PoolOptions& options) {
  for_each(dx.count(), MaxPoolBackward{dx.data<float>(), dy.data<float>(), x.data<float>(), y.data<float>(),
                                       x.shape()[1], x.shape()[2], x.shape()[3], y.shape()[1], y.shape()[2],
                                       options.window[0], options.window[1], options.stride[0], options.stride[1]});
}

}  // namespace giro::functors
