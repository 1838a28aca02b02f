#pragma once

// Convolutions for tests.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/conv2d.h>

namespace giro::test {

struct Convolution {
  std::string name;
  Shape x, w;
  Conv2dOptions options;

  Shape y() const { return conv2d_shape(x, w, options); }

  // Calls f(i_y, i_x, i_w, n), flat indices, for the products that the convolution sums: n of them at a time, which lie
  // side by side in x and in w.
  template <class F>
  void for_each_product(F f) const {
    const Shape out = y();
    const std::int64_t channels = w[3];
    for (std::int64_t n = 0; n < out[0]; ++n)
      for (std::int64_t oh = 0; oh < out[1]; ++oh)
        for (std::int64_t ow = 0; ow < out[2]; ++ow)
          for (std::int64_t o = 0; o < out[3]; ++o)
            for (std::int64_t kh = 0; kh < w[1]; ++kh)
              for (std::int64_t kw = 0; kw < w[2]; ++kw) {
                const std::int64_t h = oh * options.stride[0] + kh * options.dilation[0] - options.pad_before[0];
                const std::int64_t v = ow * options.stride[1] + kw * options.dilation[1] - options.pad_before[1];
                if (h < 0 || h >= x[1] || v < 0 || v >= x[2]) continue;
                const std::int64_t group = o / (w[0] / options.groups);
                f(((n * out[1] + oh) * out[2] + ow) * out[3] + o, ((n * x[1] + h) * x[2] + v) * x[3] + group * channels,
                  ((o * w[1] + kh) * w[2] + kw) * channels, channels);
              }
  }
};

inline Convolution same(std::string name, const Shape& x, const Shape& w, std::array<std::int64_t, 2> stride = {1, 1}) {
  return {std::move(name), x, w, same_padding(x[1], x[2], {w[1], w[2]}, stride)};
}

inline std::vector<Convolution> convolutions() {
  return {
      {"one number", {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {"one output", {1, 3, 3, 2}, {1, 3, 3, 2}, {}},
      {"1x1", {2, 5, 7, 13}, {11, 1, 1, 13}, {}},
      {"1x1, stride 2", {2, 5, 8, 3}, {4, 1, 1, 3}, {.stride = {2, 2}}},
      {"valid", {2, 7, 9, 3}, {5, 3, 3, 3}, {}},
      same("first layer", {2, 28, 28, 1}, {32, 3, 3, 1}),
      same("second layer", {2, 14, 14, 32}, {64, 3, 3, 32}),
      same("prime channels", {1, 11, 5, 7}, {13, 3, 3, 7}),
      same("same, stride 2, even", {2, 8, 8, 2}, {3, 3, 3, 2}, {2, 2}),  // pads a single zero, at the end
      same("same, stride 2, odd", {2, 7, 9, 2}, {3, 3, 3, 2}, {2, 2}),
      same("same, even window", {1, 6, 6, 3}, {2, 2, 4, 3}),
      {"asymmetric", {2, 6, 5, 3}, {4, 3, 2, 3}, {.stride = {1, 1}, .pad_before = {0, 1}, .pad_after = {2, 0}}},
      {"padding in front", {1, 5, 5, 2}, {3, 3, 3, 2}, {.stride = {2, 1}, .pad_before = {2, 2}, .pad_after = {0, 0}}},
      {"remainder", {1, 8, 10, 2}, {3, 3, 3, 2}, {.stride = {3, 4}}},
      {"wide window", {3, 4, 9, 1}, {2, 1, 5, 1}, {}},
      {"tall window", {1, 9, 2, 4}, {3, 7, 1, 4}, {.stride = {2, 1}}},
      {"one row", {1, 1, 31, 3}, {5, 1, 3, 3}, {}},
      same("several tiles", {1, 7, 6, 2}, {33, 3, 3, 2}),
      {"stride beyond the window", {1, 9, 9, 2}, {2, 2, 2, 2}, {.stride = {4, 3}}},
      // Paddings that differ between the axes, but not between the ends of an axis.
      same("same, tall window", {2, 7, 5, 3}, {4, 3, 1, 3}),
      same("same, wide window", {2, 5, 7, 3}, {4, 1, 5, 3}),
      // The same x and w with different strides or paddings: plans cached on one stream must not be mixed up.
      {"plain", {1, 6, 6, 2}, {3, 3, 3, 2}, {}},
      {"vertical stride", {1, 6, 6, 2}, {3, 3, 3, 2}, {.stride = {2, 1}}},
      {"horizontal stride", {1, 6, 6, 2}, {3, 3, 3, 2}, {.stride = {1, 2}}},
      {"vertical padding", {1, 6, 6, 2}, {3, 3, 3, 2}, {.pad_before = {1, 0}, .pad_after = {1, 0}}},
      {"horizontal padding", {1, 6, 6, 2}, {3, 3, 3, 2}, {.pad_before = {0, 1}, .pad_after = {0, 1}}},
      {"vertical dilation", {1, 6, 6, 2}, {3, 3, 3, 2}, {.dilation = {2, 1}}},
      {"horizontal dilation", {1, 6, 6, 2}, {3, 3, 3, 2}, {.dilation = {1, 2}}},
      {"dilation, padding",
       {2, 9, 8, 3},
       {4, 3, 2, 3},
       {.pad_before = {1, 0}, .pad_after = {0, 2}, .dilation = {2, 3}}},
      {"dilation, stride", {1, 11, 9, 2}, {3, 2, 3, 2}, {.stride = {2, 3}, .dilation = {3, 2}}},
      {"groups", {2, 5, 6, 6}, {4, 3, 2, 3}, {.groups = 2}},
      {"depthwise", {1, 6, 5, 8}, {8, 3, 3, 1}, {.pad_before = {1, 1}, .pad_after = {1, 1}, .groups = 8}},
      {"depthwise, two filters each", {2, 5, 5, 3}, {6, 3, 2, 1}, {.groups = 3}},
      {"groups, dilation, stride", {1, 9, 8, 8}, {8, 3, 3, 4}, {.stride = {2, 1}, .dilation = {2, 2}, .groups = 2}},
  };
}

}  // namespace giro::test
