#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <giro/kernels/pool.h>
#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

#include "kernels/host_device/storage.h"

namespace giro::host_device {

struct Relu {
  // Not x > 0 ? x : 0, which would turn a NaN into a zero.
  GIRO_HOST_DEVICE static float value(float x) { return x < 0.0f ? 0.0f : x; }
  // Not a product, which would turn an infinite dy into a NaN where x <= 0.
  GIRO_HOST_DEVICE static float gradient(float dy, float x) { return x > 0.0f ? dy : 0.0f; }
};

// Whether `value` equals the window's largest. A NaN is larger than every number, and all NaNs are equal.
GIRO_HOST_DEVICE inline bool is_largest(float value, float largest) {
  return value == largest || (value != value && largest != largest);
}

// The windows along one axis. Index must be able to count the padded pixels.
template <class Index>
struct PoolAxis {
  Index pixels, windows, size, stride, padding;  // size: of a window; stride: within the padded image

  PoolAxis(const Tensor& x, const Tensor& y, const PoolOptions& options, int axis)
      : pixels(static_cast<Index>(x.shape()[axis + 1])),
        windows(static_cast<Index>(y.shape()[axis + 1])),
        size(static_cast<Index>(options.window[axis])),
        stride(static_cast<Index>(
            std::min(options.stride[axis], x.shape()[axis + 1] + options.pad_before[axis] + options.pad_after[axis]))),
        padding(static_cast<Index>(options.pad_before[axis])) {}

  // The pixels of a window.
  GIRO_HOST_DEVICE Index begin(Index window) const {
    const Index at = window * stride;
    return at < padding ? 0 : at - padding;
  }
  GIRO_HOST_DEVICE Index end(Index window) const {
    const Index at = window * stride;
    return pixels + padding - at < size ? pixels : at + size - padding;
  }
  GIRO_HOST_DEVICE Index count(Index window) const { return end(window) - begin(window); }

  // The first window that contains a pixel, if any does, and whether a later one still does.
  GIRO_HOST_DEVICE Index first(Index pixel) const {
    return pixel + padding < size ? 0 : (pixel + padding - size) / stride + 1;
  }
  GIRO_HOST_DEVICE bool reaches(Index window, Index pixel) const {
    return window < windows && window * stride <= pixel + padding;
  }
};

// What is common to a pooling and its gradient. Elements are kPack channels. Index must also be able to count packs.
template <class Index>
struct PoolWindows {
  PoolAxis<Index> rows, columns;
  Index packs;
  float factor;  // of a whole window's average
  bool count_include_pad;

  PoolWindows(const Tensor& x, const Tensor& y, const PoolOptions& options, int pack)
      : rows(x, y, options, 0),
        columns(x, y, options, 1),
        packs(static_cast<Index>(x.shape()[3] / pack)),
        factor(1.0f / static_cast<float>(options.window[0] * options.window[1])),
        count_include_pad(options.count_include_pad) {}

  GIRO_HOST_DEVICE float factor_of(Index oh, Index ow) const {
    if (count_include_pad) return factor;
    return 1.0f / (static_cast<float>(rows.count(oh)) * static_cast<float>(columns.count(ow)));
  }
  // Where element i of x or y is, of which each image has this many rows and columns.
  struct Place {
    Index n, row, column, c;
  };
  GIRO_HOST_DEVICE Place place(Index i, Index height, Index width) const {
    const Index pixel = i / packs, row = pixel / width, n = row / height;
    return {n, row - n * height, pixel - row * width, i - pixel * packs};
  }
  GIRO_HOST_DEVICE Index x_at(Index n, Index h, Index w, Index c) const {
    return ((n * rows.pixels + h) * columns.pixels + w) * packs + c;
  }
  GIRO_HOST_DEVICE Index y_at(Index n, Index oh, Index ow, Index c) const {
    return ((n * rows.windows + oh) * columns.windows + ow) * packs + c;
  }
};

// Element i of y: the largest value of its window, or the average.
template <bool kOfLargest, class T, class Index = std::int64_t, int kPack = 1>
struct PoolForward {
  using Values = Pack<T, kPack>;
  Values* y;
  const Values* x;
  PoolWindows<Index> windows;

  PoolForward(const Tensor& y, const Tensor& x, const PoolOptions& options)
      : y(static_cast<Values*>(y.raw())), x(static_cast<const Values*>(x.raw())), windows(x, y, options, kPack) {}

  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    const PoolAxis<Index>&rows = windows.rows, &columns = windows.columns;
    const auto at = static_cast<Index>(i);
    const auto [n, oh, ow, c] = windows.place(at, rows.windows, columns.windows);
    float result[kPack] = {};
    if constexpr (kOfLargest) {
      const Values first = x[windows.x_at(n, rows.begin(oh), columns.begin(ow), c)];
      for (int k = 0; k < kPack; ++k) result[k] = static_cast<float>(first.element[k]);
    }
    for (Index h = rows.begin(oh); h < rows.end(oh); ++h) {
      for (Index w = columns.begin(ow); w < columns.end(ow); ++w) {
        const Values values = x[windows.x_at(n, h, w, c)];
        for (int k = 0; k < kPack; ++k) {
          const auto value = static_cast<float>(values.element[k]);
          if constexpr (kOfLargest) {
            result[k] = result[k] >= value || result[k] != result[k] ? result[k] : value;
          } else {
            result[k] += value;
          }
        }
      }
    }
    Values stored;
    for (int k = 0; k < kPack; ++k) {
      stored.element[k] = T(kOfLargest ? result[k] : result[k] * windows.factor_of(oh, ow));
    }
    y[at] = stored;
  }
};

// Element i of dx sums over all windows that contain it: if kOfLargest, dy where it is the first of the window's
// largest values, else dy times the average's factor.
template <bool kOfLargest, class T, class Index = std::int64_t, int kPack = 1>
struct PoolBackward {
  using Values = Pack<T, kPack>;
  Values* dx;
  const Values *dy, *x, *y;  // x and y are only read with kOfLargest
  PoolWindows<Index> windows;

  PoolBackward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, const PoolOptions& options)
      : dx(static_cast<Values*>(dx.raw())),
        dy(static_cast<const Values*>(dy.raw())),
        x(static_cast<const Values*>(x.raw())),
        y(static_cast<const Values*>(y.raw())),
        windows(dx, dy, options, kPack) {}

  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    const PoolAxis<Index>&rows = windows.rows, &columns = windows.columns;
    const auto at = static_cast<Index>(i);
    const auto [n, h, w, c] = windows.place(at, rows.pixels, columns.pixels);
    float sum[kPack] = {};
    for (Index oh = rows.first(h); rows.reaches(oh, h); ++oh) {
      for (Index ow = columns.first(w); columns.reaches(ow, w); ++ow) {
        const Index o = windows.y_at(n, oh, ow, c);
        bool takes[kPack];
        if constexpr (kOfLargest) {
          if (!find_largest(takes, x[at], y[o], n, oh, ow, h, w, c)) continue;
        }
        const Values shares = dy[o];
        for (int k = 0; k < kPack; ++k) {
          const auto share = static_cast<float>(shares.element[k]);
          if constexpr (kOfLargest) {
            if (takes[k]) sum[k] += share;
          } else {
            sum[k] += windows.factor_of(oh, ow) * share;
          }
        }
      }
    }
    Values result;
    for (int k = 0; k < kPack; ++k) result.element[k] = T(sum[k]);
    dx[at] = result;
  }

  // In which channels `own`, at (h, w), is the first of the largest values of window (oh, ow). Returns whether there is
  // any.
  GIRO_HOST_DEVICE bool find_largest(bool (&is_first)[kPack], const Values& own, const Values& largest, Index n,
                                     Index oh, Index ow, Index h, Index w, Index c) const {
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
    for (Index row = windows.rows.begin(oh); row <= h; ++row) {
      const Index end = row == h ? w : windows.columns.end(ow);
      for (Index column = windows.columns.begin(ow); column < end; ++column) {
        if (!remains(x[windows.x_at(n, row, column, c)], false)) return false;
      }
    }
    return true;
  }
};

}  // namespace giro::host_device
