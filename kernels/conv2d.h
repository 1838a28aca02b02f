#pragma once

#include <array>
#include <cstdint>

#include <giro/runtime/shape.h>

namespace giro {

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1};      // height, width
  std::array<std::int64_t, 2> pad_before{0, 0};  // top, left: zeros
  std::array<std::int64_t, 2> pad_after{0, 0};   // bottom, right
  std::array<std::int64_t, 2> dilation{1, 1};    // distance between a filter's taps
  std::int64_t groups = 1;                       // each group of filters sees its own group of channels
  bool operator==(const Conv2dOptions&) const = default;
};

// The padding that makes an output axis ceil(input / stride) long. If it is odd, the extra zero goes at the end, as in
// the "SAME" padding of XLA and TensorFlow.
Conv2dOptions same_padding(std::int64_t height, std::int64_t width, std::array<std::int64_t, 2> window,
                           std::array<std::int64_t, 2> stride, std::array<std::int64_t, 2> dilation = {1, 1});

// The shape of y. Errors: shape_mismatch (channels differ, window larger than the padded image), invalid_argument.
Shape conv2d_shape(const Shape& x, const Shape& w, const Conv2dOptions& options);

// The shape of the images x (N, H, W, C) from which conv2d makes dz (N, OH, OW, O). If the stride is larger than 1,
// there are several: this is the smallest plus `more` rows and columns, which are fewer than the stride. Errors: as for
// conv2d_shape.
Shape conv2d_transpose_shape(const Shape& dz, const Shape& w, const Conv2dOptions& options,
                             std::array<std::int64_t, 2> more = {0, 0});

}  // namespace giro
