#pragma once

#include <cstdint>
#include <type_traits>

#include <giro/kernels/pool.h>
#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

#include "kernels/functors/storage.h"

namespace giro::functors {

struct Identity {
  GIRO_HOST_DEVICE static float value(float x) { return x; }
};

struct Relu {
  // Not x > 0 ? x : 0, which would turn a NaN into a zero.
  GIRO_HOST_DEVICE static float value(float x) { return x < 0.0f ? 0.0f : x; }
  // Not a product, which would turn an infinite dy into a NaN where x <= 0.
  GIRO_HOST_DEVICE static float gradient(float dy, float x) { return x > 0.0f ? dy : 0.0f; }
};

template <class F>
void with_activation(bool is_relu, F&& f) {
  is_relu ? f(Relu{}) : f(Identity{});
}

// Whether `value` equals the window's largest. A NaN is larger than every number, and all NaNs are equal.
GIRO_HOST_DEVICE inline bool is_largest(float value, float largest) {
  return value == largest || (value != value && largest != largest);
}

// dx[i] sums the gradients of all windows in which x[i] is the first largest value.
template <class T>
struct MaxPoolBackward {
  T* dx;
  const T *dy, *x, *y;
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
        const auto largest = static_cast<float>(y[o]);
        if (is_largest(static_cast<float>(x[i]), largest) && is_first(n, oh, ow, h, w, c, largest)) {
          sum += static_cast<float>(dy[o]);
        }
      }
    }
    dx[i] = T(sum);
  }

  GIRO_HOST_DEVICE bool is_first(std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t h, std::int64_t w,
                                 std::int64_t c, float largest) const {
    for (std::int64_t row = oh * stride_h; row <= h; ++row) {
      const std::int64_t end = row == h ? w : ow * stride_w + window_w;
      for (std::int64_t column = ow * stride_w; column < end; ++column) {
        const auto value = static_cast<float>(x[((n * height + row) * width + column) * channels + c]);
        if (is_largest(value, largest)) return false;
      }
    }
    return true;
  }
};

// The windows tile the images: each begins where the one before ends. Intermediate values are rounded as the separate
// ops that this replaces would round them.
template <class F, class T>
struct ActivationAveragePool {
  T* y;
  const T *z, *b;                                    // b: null for none
  std::int64_t width, channels, window_h, window_w;  // of z

  ActivationAveragePool(const Tensor& y, const Tensor& z, const Tensor& b, const PoolOptions& options)
      : y(y.data<T>()),
        z(z.data<T>()),
        b(b ? b.data<T>() : nullptr),
        width(z.shape()[2]),
        channels(z.shape()[3]),
        window_h(options.window[0]),
        window_w(options.window[1]) {}

  // The term of one value of z, in channel c.
  GIRO_HOST_DEVICE float term(T at, std::int64_t c) const {
    const auto value = static_cast<float>(at);
    return stored<T>(F::value(b == nullptr ? value : stored<T>(value + static_cast<float>(b[c]))));
  }
};

// Row r of x belongs to row r / window_h of y, in any image.
template <class F, class T>
struct AveragePoolActivationBackward {
  T* dz;
  const T *dy, *x, *b;
  std::int64_t width, channels, window_h, window_w;
  float factor;

  AveragePoolActivationBackward(const Tensor& dz, const Tensor& dy, const Tensor& x, const Tensor& b,
                                const PoolOptions& options)
      : dz(dz.data<T>()),
        dy(dy.data<T>()),
        x(x.data<T>()),
        b(b ? b.data<T>() : nullptr),
        width(dz.shape()[2]),
        channels(dz.shape()[3]),
        window_h(options.window[0]),
        window_w(options.window[1]),
        factor(1.0f / static_cast<float>(window_h * window_w)) {}

  // The gradient at one value of x, in channel c. Without an activation x_at is not read and need not exist.
  GIRO_HOST_DEVICE T gradient(T dy_at, const T& x_at, std::int64_t c) const {
    if constexpr (std::is_same_v<F, Identity>) {
      return T(factor * static_cast<float>(dy_at));
    } else {
      const auto value = static_cast<float>(x_at);
      const float input = b == nullptr ? value : stored<T>(value + static_cast<float>(b[c]));
      return T(F::gradient(stored<T>(factor * static_cast<float>(dy_at)), input));
    }
  }
};

template <class ForEach>
void max_pool_backward(const ForEach& for_each, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y,
                       const PoolOptions& options) {
  with_storage(dx.dtype(), [&]<class T>(Type<T>) {
    for_each(dx.count(), MaxPoolBackward<T>{dx.data<T>(), dy.data<T>(), x.data<T>(), y.data<T>(), x.shape()[1],
                                            x.shape()[2], x.shape()[3], y.shape()[1], y.shape()[2], options.window[0],
                                            options.window[1], options.stride[0], options.stride[1]});
  });
}

}  // namespace giro::functors
