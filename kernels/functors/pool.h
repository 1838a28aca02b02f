#pragma once

#include <algorithm>
#include <cstdint>

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

// dx sums over all windows that contain an element: if kOfLargest, dy where the element is the first of the window's
// largest values, else dy times `factor`. Element i is kPack channels. Index must be able to count pixels and packs.
template <bool kOfLargest, class T, class Index = std::int64_t, int kPack = 1>
struct PoolBackward {
  using Values = Pack<T, kPack>;
  Values* dx;
  const Values *dy, *x, *y;  // x and y are only read with kOfLargest
  Index height, width, packs, out_height, out_width, window_h, window_w;
  Index stride_h, stride_w;  // within the image
  float factor;

  PoolBackward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, const PoolOptions& options)
      : dx(static_cast<Values*>(dx.raw())),
        dy(static_cast<const Values*>(dy.raw())),
        x(static_cast<const Values*>(x.raw())),
        y(static_cast<const Values*>(y.raw())),
        height(static_cast<Index>(dx.shape()[1])),
        width(static_cast<Index>(dx.shape()[2])),
        packs(static_cast<Index>(dx.shape()[3] / kPack)),
        out_height(static_cast<Index>(dy.shape()[1])),
        out_width(static_cast<Index>(dy.shape()[2])),
        window_h(static_cast<Index>(options.window[0])),
        window_w(static_cast<Index>(options.window[1])),
        stride_h(static_cast<Index>(std::min(options.stride[0], dx.shape()[1]))),
        stride_w(static_cast<Index>(std::min(options.stride[1], dx.shape()[2]))),
        factor(1.0f / static_cast<float>(options.window[0] * options.window[1])) {}

  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto at = static_cast<Index>(i);
    const Index pixel = at / packs, c = at - pixel * packs, row = pixel / width, n = row / height;
    const Index h = row - n * height, w = pixel - row * width;
    const Index first_oh = h < window_h ? 0 : (h - window_h) / stride_h + 1;
    const Index first_ow = w < window_w ? 0 : (w - window_w) / stride_w + 1;
    float sum[kPack] = {};
    for (Index oh = first_oh; oh < out_height && oh * stride_h <= h; ++oh) {
      for (Index ow = first_ow; ow < out_width && ow * stride_w <= w; ++ow) {
        const Index o = ((n * out_height + oh) * out_width + ow) * packs + c;
        bool takes[kPack];
        if constexpr (kOfLargest) {
          if (!find_largest(takes, x[at], y[o], n, oh * stride_h, ow * stride_w, h, w, c)) continue;
        }
        const Values shares = dy[o];
        for (int k = 0; k < kPack; ++k) {
          const auto share = static_cast<float>(shares.element[k]);
          if constexpr (kOfLargest) {
            if (takes[k]) sum[k] += share;
          } else {
            sum[k] += factor * share;
          }
        }
      }
    }
    Values result;
    for (int k = 0; k < kPack; ++k) result.element[k] = T(sum[k]);
    dx[at] = result;
  }

  // In which channels `own`, at (h, w) of a window that begins at (top, left), is the first of the largest values.
  // Returns whether there is any.
  GIRO_HOST_DEVICE bool find_largest(bool (&is_first)[kPack], const Values& own, const Values& largest, Index n,
                                     Index top, Index left, Index h, Index w, Index c) const {
    const auto remains = [&](const Values& values, bool expected) {
      bool any = false;
      for (int k = 0; k < kPack; ++k) {
        const bool is = is_largest(static_cast<float>(values.element[k]), static_cast<float>(largest.element[k]));
        is_first[k] = is_first[k] && is == expected;
        any = any || is_first[k];
      }
      return any;
    };
    for (int k = 0; k < kPack; ++k) is_first[k] = true;
    if (!remains(own, true)) return false;
    for (Index row = top; row <= h; ++row) {
      const Index end = row == h ? w : left + window_w;
      for (Index column = left; column < end; ++column) {
        if (!remains(x[((n * height + row) * width + column) * packs + c], false)) return false;
      }
    }
    return true;
  }
};

}  // namespace giro::functors
