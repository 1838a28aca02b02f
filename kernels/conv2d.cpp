#include <giro/kernels/conv2d.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "runtime/throw_error.h"

namespace giro {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // of a stride, a dilation or a padding

// How many pixels a window covers.
std::int64_t reach(std::int64_t window, std::int64_t dilation) { return (window - 1) * dilation + 1; }

void check_options(const Conv2dOptions& options) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t stride = options.stride[axis], dilation = options.dilation[axis];
    const std::int64_t before = options.pad_before[axis], after = options.pad_after[axis];
    if (std::min(stride, dilation) < 1 || std::min(before, after) < 0 ||
        std::max({stride, dilation, before, after}) > kMost) {
      throw_invalid("conv2d: stride {}, dilation {} and padding {}, {}; expected at least 1, 1 and 0, and at most {}",
                    stride, dilation, before, after, kMost);
    }
  }
  if (options.groups < 1) {
    throw_invalid("conv2d: {} groups, expected at least 1", options.groups);
  }
}

std::string channels_of(std::int64_t groups) { return groups == 1 ? "C" : fmt::format("C / {} groups", groups); }

}  // namespace

Conv2dOptions same_padding(std::int64_t height, std::int64_t width, std::array<std::int64_t, 2> window,
                           std::array<std::int64_t, 2> stride, std::array<std::int64_t, 2> dilation) {
  if (stride[0] < 1 || stride[1] < 1) {
    throw_invalid("same_padding: stride {}, {}; expected at least 1", stride[0], stride[1]);
  }
  Conv2dOptions options{.stride = stride, .dilation = dilation};
  const std::array<std::int64_t, 2> size{height, width};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t out = (size[axis] + stride[axis] - 1) / stride[axis];
    const std::int64_t total =
        std::max<std::int64_t>((out - 1) * stride[axis] + reach(window[axis], dilation[axis]) - size[axis], 0);
    options.pad_before[axis] = total / 2;
    options.pad_after[axis] = total - total / 2;
  }
  return options;
}

Shape conv2d_shape(const Shape& x, const Shape& w, const Conv2dOptions& options) {
  check_options(options);
  if (x.rank() != 4 || w.rank() != 4 || x[3] != w[3] * options.groups || w[0] % options.groups != 0) {
    throw_shape("conv2d: x is {}, w is {}; expected (N, H, W, C) and (O, KH, KW, {})", to_string(x), to_string(w),
                channels_of(options.groups));
  }
  std::array<std::int64_t, 2> out{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const int i = static_cast<int>(axis) + 1;
    const std::int64_t padded = x[i] + options.pad_before[axis] + options.pad_after[axis];
    const std::int64_t window = reach(w[i], options.dilation[axis]);
    if (w[i] < 1 || padded < window) {
      throw_shape("conv2d: a window of {} does not fit in {} padded rows or columns of x {}", window, padded,
                  to_string(x));
    }
    out[axis] = (padded - window) / options.stride[axis] + 1;
  }
  return {x[0], out[0], out[1], w[0]};
}

Shape conv2d_transpose_shape(const Shape& dz, const Shape& w, const Conv2dOptions& options,
                             std::array<std::int64_t, 2> more) {
  check_options(options);
  if (dz.rank() != 4 || w.rank() != 4 || dz[3] != w[0] || w[0] % options.groups != 0) {
    throw_shape("conv2d_transpose: dz is {}, w is {}; expected (N, OH, OW, O) and (O, KH, KW, {})", to_string(dz),
                to_string(w), channels_of(options.groups));
  }
  std::array<std::int64_t, 2> size{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const int i = static_cast<int>(axis) + 1;
    if (more[axis] < 0 || more[axis] >= options.stride[axis]) {
      throw_invalid("conv2d_transpose: {} extra rows or columns with a stride of {}, expected 0 to {}", more[axis],
                    options.stride[axis], options.stride[axis] - 1);
    }
    const std::int64_t pads = options.pad_before[axis] + options.pad_after[axis];
    size[axis] = (dz[i] - 1) * options.stride[axis] + reach(w[i], options.dilation[axis]) - pads + more[axis];
    if (w[i] < 1 || dz[i] < 1 || size[axis] < 1) {
      throw_shape("conv2d_transpose: a window of {} with padding {} and {} leaves nothing of dz {}", w[i],
                  options.pad_before[axis], options.pad_after[axis], to_string(dz));
    }
  }
  return {dz[0], size[0], size[1], w[3] * options.groups};
}

}  // namespace giro
