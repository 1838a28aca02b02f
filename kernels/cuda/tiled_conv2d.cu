#include "kernels/cuda/tiled_conv2d.h"

#include "kernels/cuda/tiled_product.cuh"

namespace giro::cuda {
namespace {

struct Geometry {
  std::int64_t images, height, width, channels;  // of x
  std::int64_t out_height, out_width, filters;   // of y
  std::int64_t filter_height, filter_width;
  std::int64_t stride[2], pad[2];

  std::int64_t pixels() const { return images * height * width; }
  std::int64_t out_pixels() const { return images * out_height * out_width; }
  std::int64_t taps() const { return filter_height * filter_width; }
};

Geometry geometry_of(const Shape& x, const Shape& w, const Shape& y, const Window& window) {
  return {x[0],
          x[1],
          x[2],
          x[3],
          y[1],
          y[2],
          y[3],
          w[1],
          w[2],
          {window.stride[0], window.stride[1]},
          {window.pad_before[0], window.pad_before[1]}};
}

// Pixel number i, counted row by row and image by image.
struct Pixel {
  std::int64_t image, row, column;

  __device__ static Pixel at(std::int64_t i, std::int64_t height, std::int64_t width) {
    const std::int64_t line = i / width;
    return {line / height, line % height, i % width};
  }
};

// An element of a filter: the tap's row and column, and the channel.
struct Tap {
  std::int64_t row, column, channel;

  __device__ static Tap at(std::int64_t i, std::int64_t filter_width, std::int64_t channels) {
    const std::int64_t tap = i / channels;
    return {tap / filter_width, tap % filter_width, i % channels};
  }
};

// The patch of x that each pixel of y sees. Its terms are the elements of a filter.
template <class T>
struct Patches {
  using Place = Pixel;  // its top left corner, which may lie outside the image
  using Term = Tap;
  static constexpr bool kAlongTerms = true;

  const T* x;
  std::int64_t count;
  Geometry g;

  __device__ Place place(std::int64_t i) const {
    const Pixel out = Pixel::at(i, g.out_height, g.out_width);
    return {out.image, out.row * g.stride[0] - g.pad[0], out.column * g.stride[1] - g.pad[1]};
  }
  __device__ Term term(std::int64_t t) const { return Tap::at(t, g.filter_width, g.channels); }
  __device__ float at(const Place& corner, const Term& tap) const {
    const std::int64_t row = corner.row + tap.row, column = corner.column + tap.column;
    if (row < 0 || row >= g.height || column < 0 || column >= g.width) return 0.0f;
    return static_cast<float>(x[((corner.image * g.height + row) * g.width + column) * g.channels + tap.channel]);
  }
};

// The elements of dz that each pixel of x contributed to. The terms are the taps, and for each tap all filters.
template <class T>
struct Shares {
  using Place = Pixel;
  using Term = Tap;  // its channel is the filter
  static constexpr bool kAlongTerms = true;

  const T* dz;
  std::int64_t count;
  Geometry g;

  __device__ Place place(std::int64_t i) const { return Pixel::at(i, g.height, g.width); }
  __device__ Term term(std::int64_t t) const { return Tap::at(t, g.filter_width, g.filters); }
  __device__ float at(const Place& pixel, const Term& tap) const {
    const std::int64_t down = pixel.row + g.pad[0] - tap.row, right = pixel.column + g.pad[1] - tap.column;
    if (down < 0 || right < 0 || down % g.stride[0] != 0 || right % g.stride[1] != 0) return 0.0f;
    const std::int64_t row = down / g.stride[0], column = right / g.stride[1];
    if (row >= g.out_height || column >= g.out_width) return 0.0f;
    return static_cast<float>(
        dz[((pixel.image * g.out_height + row) * g.out_width + column) * g.filters + tap.channel]);
  }
};

// The filters by channel, with the same terms as Shares.
template <class T>
struct FiltersByChannel {
  using Place = std::int64_t;
  using Term = std::int64_t;
  static constexpr bool kAlongTerms = false;

  const T* w;
  std::int64_t count, filters, taps;

  __device__ Place place(std::int64_t i) const { return i; }
  __device__ Term term(std::int64_t t) const { return ((t % filters) * taps + t / filters) * count; }
  __device__ float at(Place channel, Term begin) const { return static_cast<float>(w[begin + channel]); }
};

}  // namespace

void tiled_conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Window& window, const Stream& stream) {
  const Geometry g = geometry_of(x.shape(), w.shape(), y.shape(), window);
  const std::int64_t terms = g.taps() * g.channels;
  functors::with_storage(x.dtype(), [&]<class T>(functors::Type<T>) {
    tiled_product(y, Patches<T>{x.data<T>(), g.out_pixels(), g}, Matrix<true, T>{w.data<T>(), g.filters, terms}, terms,
                  stream);
  });
}

void tiled_conv2d_backward_data(const Tensor& dx, const Tensor& dz, const Tensor& w, const Window& window,
                                const Stream& stream) {
  const Geometry g = geometry_of(dx.shape(), w.shape(), dz.shape(), window);
  functors::with_storage(dz.dtype(), [&]<class T>(functors::Type<T>) {
    tiled_product(dx, Shares<T>{dz.data<T>(), g.pixels(), g},
                  FiltersByChannel<T>{w.data<T>(), g.channels, g.filters, g.taps()}, g.taps() * g.filters, stream);
  });
}

void tiled_conv2d_backward_filter(const Tensor& dw, const Tensor& dz, const Tensor& x, const Window& window,
                                  const Stream& stream) {
  const Geometry g = geometry_of(x.shape(), dw.shape(), dz.shape(), window);
  functors::with_storage(x.dtype(), [&]<class T>(functors::Type<T>) {
    const Patches<T> patches{x.data<T>(), g.out_pixels(), g};
    tiled_product(dw, Matrix<false, T>{dz.data<T>(), g.filters, g.filters},
                  Exchanged<Patches<T>>{patches, g.taps() * g.channels}, g.out_pixels(), stream);
  });
}

}  // namespace giro::cuda
