#include "kernels/cuda/own_conv2d.h"

#include <algorithm>
#include <string>

#include "kernels/cuda/divisor.h"
#include "kernels/cuda/tiled_product.cuh"

namespace giro::cuda {
namespace {

// Images, pixels of an image, elements of a filter and elements under a filter are counted in ints. The sum of two such
// counts must fit, too.
int to_size(std::int64_t value) {
  if (value >= std::int64_t{1} << 30) {
    throw Error(ErrorCode::unsupported, "expected sizes below 2^30, found " + std::to_string(value));
  }
  return static_cast<int>(value);
}

struct Images {
  Divisor height, width, pixels, channels;  // pixels: height x width; channels: of a group
  int pixel;                                // the channels of all groups

  Images(const Shape& shape, std::int64_t groups)
      : height(to_size(shape[1])),
        width(to_size(shape[2])),
        pixels(to_size(shape[1] * shape[2])),
        channels(to_size(shape[3] / groups)),
        pixel(to_size(shape[3])) {
    to_size(shape[0]);
  }

  // The first channel of the block's group.
  __device__ int channel() const { return static_cast<int>(blockIdx.z) * channels.value; }
};

struct Geometry {
  Images x, y;
  Divisor filter_width, stride[2];
  int pad[2], dilation[2];

  Geometry(const Shape& x, const Shape& w, const Shape& y, const Conv2dOptions& options)
      : x(x, options.groups),
        y(y, options.groups),
        filter_width(to_size(w[2])),
        stride{Divisor(to_size(options.stride[0])), Divisor(to_size(options.stride[1]))},
        pad{to_size(options.pad_before[0]), to_size(options.pad_before[1])},
        dilation{to_size(options.dilation[0]), to_size(options.dilation[1])} {
    to_size(w[1] * w[2] * std::max(x[3], y[3]));
    if (options.groups > 65535) {
      throw Error(ErrorCode::unsupported, "expected at most 65535 groups, found " + std::to_string(options.groups));
    }
    const std::int64_t down = (w[1] - 1) * options.dilation[0], right = (w[2] - 1) * options.dilation[1];
    to_size((y[1] - 1) * options.stride[0] + down + 1);
    to_size((y[2] - 1) * options.stride[1] + right + 1);
    to_size((down * x[2] + right + 1) * x[3]);
  }
};

struct Pixel {
  int image, row, column;
};

// A pixel that may lie outside of its image, and an index in data.
struct Point {
  std::int64_t number;
  int row, column;
};

// An element of a filter: its tap, in pixels from the first tap, and a number that each operand defines.
struct Tap {
  int number, row, column;
};

// A tile's first pixel: the number of its image, and its own number in that image.
struct PixelOrigin {
  int image, pixel;

  __device__ PixelOrigin(std::int64_t first, const Images& images)
      : image(static_cast<int>(first / images.pixels.value)),
        pixel(static_cast<int>(first - std::int64_t{image} * images.pixels.value)) {}

  // The pixel i pixels later.
  __device__ Pixel later(int i, const Images& images) const {
    const int at = pixel + i, line = at / images.width;
    return {image + line / images.height, line % images.height, at % images.width};
  }
};

// The tap of element i of a filter; its number is the channel.
__device__ Tap tap_of(std::int64_t i, const Geometry& g, const Divisor& channels) {
  const int at = static_cast<int>(i), tap = at / channels;
  return {at % channels, tap / g.filter_width * g.dilation[0], tap % g.filter_width * g.dilation[1]};
}

// The patch of x that each pixel of y sees, to be multiplied by a filter. If kAlong, the terms are a patch's elements;
// otherwise they are the pixels.
template <bool kAlong, class T>
struct Patches : Operand<kAlong, T> {
  Geometry g;

  Patches(const Tensor& x, const Geometry& g) : Operand<kAlong, T>(x, g.x.channels.value), g(g) {}

  __device__ PixelOrigin origin(std::int64_t first) const { return PixelOrigin(first, g.y); }
  // The patch's top left corner, which may lie outside the image; its number is an index in data.
  __device__ Point outer(const PixelOrigin& origin, int i) const {
    const Pixel out = origin.later(i, g.y);
    const int row = out.row * g.stride[0].value - g.pad[0], column = out.column * g.stride[1].value - g.pad[1];
    const std::int64_t corner =
        std::int64_t{out.image} * g.x.pixels.value + std::int64_t{row} * g.x.width.value + column;
    return {corner * g.x.pixel + g.x.channel(), row, column};
  }
  // Its number is the distance in data from the corner.
  __device__ Tap inner(std::int64_t i) const {
    const Tap tap = tap_of(i, g, g.x.channels);
    return {(tap.row * g.x.width.value + tap.column) * g.x.pixel + tap.number, tap.row, tap.column};
  }
  __device__ std::int64_t find(const Point& corner, const Tap& tap) const {
    const int row = corner.row + tap.row, column = corner.column + tap.column;
    if (row < 0 || row >= g.x.height.value || column < 0 || column >= g.x.width.value) return -1;
    return corner.number + tap.number;
  }
};

// The elements of dz that each pixel of x contributed to. The terms are the taps, and for each tap all filters.
template <class T>
struct GradientPatches : Operand<true, T> {
  Geometry g;

  GradientPatches(const Tensor& dz, const Geometry& g) : Operand<true, T>(dz, g.y.channels.value), g(g) {}

  __device__ PixelOrigin origin(std::int64_t first) const { return PixelOrigin(first, g.x); }
  // Its number is the index in data of dz's image.
  __device__ Point outer(const PixelOrigin& origin, int i) const {
    const Pixel pixel = origin.later(i, g.x);
    return {std::int64_t{pixel.image} * g.y.pixels.value * g.y.pixel + g.y.channel(), pixel.row + g.pad[0],
            pixel.column + g.pad[1]};
  }
  // Its number is the filter.
  __device__ Tap inner(std::int64_t i) const { return tap_of(i, g, g.y.channels); }
  __device__ std::int64_t find(const Point& pixel, const Tap& tap) const {
    const int down = pixel.row - tap.row, right = pixel.column - tap.column;
    if (down < 0 || right < 0 || down % g.stride[0] != 0 || right % g.stride[1] != 0) return -1;
    const int row = down / g.stride[0], column = right / g.stride[1];
    if (row >= g.y.height.value || column >= g.y.width.value) return -1;
    return pixel.number + std::int64_t{row * g.y.width.value + column} * g.y.pixel + tap.number;
  }
};

// The filters by channel, with the same terms as GradientPatches.
template <class T>
struct FiltersByChannel : Operand<false, T> {
  Divisor filters;
  int taps;
  std::int64_t channels;

  FiltersByChannel(const Tensor& w, std::int64_t groups)
      : Operand<false, T>(w, w.shape()[3]),
        filters(to_size(w.shape()[0] / groups)),
        taps(to_size(w.shape()[1] * w.shape()[2])),
        channels(w.shape()[3]) {}

  __device__ int origin(std::int64_t first) const { return static_cast<int>(first); }
  __device__ std::int64_t outer(int origin, int i) const {
    const int term = origin + i, filter = static_cast<int>(blockIdx.z) * filters.value + term % filters;
    return (std::int64_t{filter} * taps + term / filters) * channels;
  }
  __device__ std::int64_t inner(std::int64_t i) const { return i; }
  __device__ std::int64_t find(std::int64_t begin, std::int64_t channel) const { return begin + channel; }
};

}  // namespace

void tiled_conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, bool relu,
                  const Conv2dOptions& options, const Stream& stream) {
  const Geometry g(x.shape(), w.shape(), y.shape(), options);
  const std::int64_t filters = w.shape()[0], each = filters / options.groups, terms = w.count() / filters;
  host_device::with_storage(x.dtype(), [&]<class T>(host_device::Type<T>) {
    tiled_product({y, y.count() / filters, each, terms, b, relu, options.groups, filters, each}, Patches<true, T>(x, g),
                  Matrix<true, T>(w, terms, each * terms), stream);
  });
}

void tiled_conv2d_backward_data(const Tensor& dx, const Tensor& dz, const Tensor& w, const Conv2dOptions& options,
                                const Stream& stream) {
  const Geometry g(dx.shape(), w.shape(), dz.shape(), options);
  const std::int64_t channels = dx.shape()[3], each = w.shape()[3];
  if (channels == 0) return;
  host_device::with_storage(dz.dtype(), [&]<class T>(host_device::Type<T>) {
    const Product product{.out = dx,
                          .rows = dx.count() / channels,
                          .columns = each,
                          .terms = w.count() / channels,
                          .slices = options.groups,
                          .row_stride = channels,
                          .slice = each};
    tiled_product(product, GradientPatches<T>(dz, g), FiltersByChannel<T>(w, options.groups), stream);
  });
}

void tiled_conv2d_backward_filter(const Tensor& dw, const Tensor& dz, const Tensor& x, const Conv2dOptions& options,
                                  const Stream& stream) {
  const Geometry g(x.shape(), dw.shape(), dz.shape(), options);
  const std::int64_t filters = dw.shape()[0], each = filters / options.groups;
  host_device::with_storage(x.dtype(), [&]<class T>(host_device::Type<T>) {
    const Product product{.out = dw,
                          .rows = each,
                          .columns = dw.count() / filters,
                          .terms = dz.count() / filters,
                          .slices = options.groups};
    tiled_product(product, Matrix<false, T>(dz, filters, each), Patches<false, T>(x, g), stream);
  });
}

}  // namespace giro::cuda
