#include "kernels/cpu/winograd.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/cpu/for_each.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/tile_product.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu::winograd {
namespace {

constexpr std::int64_t kPlaces = 16;

// Of squares whose elements are rows of channels. The transformed elements are in planes. If these are in panels,
// `panel` is the distance between them; if it is a panel's width, the channels are contiguous.
struct Transforms {
  using ToPlanes = void (*)(float* to, std::int64_t plane, std::int64_t panel, const float* const* pixels,
                            std::int64_t channels);
  using FromPlanes = void (*)(float* const* pixels, const float* from, std::int64_t plane, const float* bias,
                              std::int64_t channels);
  ToPlanes input, filter, output_gradient;
  FromPlanes output, filter_gradient;  // only `output` adds a bias
};

#define GIRO_LOOPS "kernels/cpu/winograd_loop.h"
#include "kernels/cpu/instruction_set_loops.h"

const Transforms& transforms() {
  static constexpr expr::PerInstructionSet<const Transforms*> kAll{
      {&baseline::kTransforms, &avx2::kTransforms, &avx512::kTransforms}};
  return *kAll.get();
}

// Squares of 2 x 2 outputs and 4 x 4 inputs.
struct Tiles {
  std::int64_t images, in_height, in_width, out_height, out_width, pad_top, pad_left;

  Tiles(const Shape& in, const Shape& out, std::int64_t pad_top, std::int64_t pad_left)
      : images(in[0]),
        in_height(in[1]),
        in_width(in[2]),
        out_height(out[1]),
        out_width(out[2]),
        pad_top(pad_top),
        pad_left(pad_left) {}
  std::int64_t rows() const { return (out_height + 1) / 2; }
  std::int64_t columns() const { return (out_width + 1) / 2; }
  std::int64_t count() const { return images * rows() * columns(); }

  // The addresses of the channels of tile t's pixels; `outside` for pixels that do not exist.
  template <class T>
  std::array<T*, 16> inputs(std::int64_t t, T* images_, std::int64_t channels, T* outside) const {
    return pixels<4>(t, images_, in_height, in_width, pad_top, pad_left, channels, outside);
  }
  template <class T>
  std::array<T*, 4> outputs(std::int64_t t, T* images_, std::int64_t channels, T* outside) const {
    return pixels<2>(t, images_, out_height, out_width, 0, 0, channels, outside);
  }

 private:
  template <int kSize, class T>
  std::array<T*, kSize * kSize> pixels(std::int64_t t, T* first, std::int64_t height, std::int64_t width,
                                       std::int64_t top, std::int64_t left, std::int64_t channels, T* outside) const {
    const std::int64_t n = t / (rows() * columns());
    const std::int64_t y = t / columns() % rows() * 2 - top, x = t % columns() * 2 - left;
    std::array<T*, kSize * kSize> all;
    for (int i = 0; i < kSize; ++i) {
      for (int j = 0; j < kSize; ++j) {
        const bool exists = y + i >= 0 && y + i < height && x + j >= 0 && x + j < width;
        all[i * kSize + j] = exists ? first + ((n * height + y + i) * width + x + j) * channels : outside;
      }
    }
    return all;
  }
};

// The addresses of a filter's taps, `step` apart.
std::array<float*, 9> taps(float* first, std::int64_t step) {
  std::array<float*, 9> all;
  for (int i = 0; i < 9; ++i) all[i] = first + i * step;
  return all;
}

float* floats_of_thread(std::int64_t count) {
  return reinterpret_cast<float*>(memory_of_thread(static_cast<std::size_t>(count) * sizeof(float)));
}

// Queues out = the convolution of `in` with transformed and packed filters: panels of (in channels, out channels) for
// each place.
void convolve(float* out, const float* in, const Tensor& filters, const float* bias, const Tiles& tiles,
              std::int64_t in_channels, std::int64_t out_channels, const Stream& stream) {
  // The filters are read once per block; a block's own arrays stay in a core's cache.
  const std::int64_t most = std::clamp<std::int64_t>(4096 / (in_channels + out_channels), 32, 64);
  cpu::submit(stream, [=, &transform = transforms(), &products = tile_products(), u = filters.data<float>()] {
    for_each_block(tiles.count(), most, kParallelFrom * tiles.count(), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t rows = end - begin, in_plane = rows * in_channels, out_plane = rows * out_channels;
      float* const v = floats_of_thread(kPlaces * (in_plane + out_plane) + std::max(in_channels, out_channels));
      float *const m = v + kPlaces * in_plane, *const outside = m + kPlaces * out_plane;
      std::fill_n(outside, in_channels, 0.0f);
      for (std::int64_t t = begin; t < end; ++t) {
        transform.input(v + (t - begin) * in_channels, in_plane, products.width,
                        tiles.inputs<const float>(t, in, in_channels, outside).data(), in_channels);
      }
      for (std::int64_t i = 0; i < kPlaces; ++i) {
        products.multiply({.out = m + i * out_plane,
                           .out_row = out_channels,
                           .left = v + i * in_plane,
                           .left_row = in_channels,
                           .left_term = 1,
                           .right = u + i * in_channels * out_channels,
                           .panel_rows = in_channels,
                           .rows = rows,
                           .columns = out_channels,
                           .terms = in_channels,
                           .adds = false});
      }
      for (std::int64_t t = begin; t < end; ++t) {
        transform.output(tiles.outputs<float>(t, out, out_channels, outside).data(), m + (t - begin) * out_channels,
                         out_plane, bias, out_channels);
      }
    });
  });
}

}  // namespace

bool fits(const Shape& x, const Shape& w, const Shape& y, DType dtype, const Conv2dOptions& options) {
  constexpr std::int64_t kChannels = 32;  // whole panels of any instruction set
  constexpr std::int64_t kPixels = 128;   // with fewer, transforming the filters does not pay
  const auto is = [](const std::array<std::int64_t, 2>& both, std::int64_t value) {
    return both[0] == value && both[1] == value;
  };
  return dtype == DType::f32 && w[1] == 3 && w[2] == 3 && is(options.stride, 1) && is(options.dilation, 1) &&
         options.groups == 1 && std::max(options.pad_before[0], options.pad_before[1]) <= 2 && x[3] % kChannels == 0 &&
         w[0] % kChannels == 0 && y[0] * y[1] * y[2] >= kPixels;
}

void forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
             const Stream& stream) {
  const std::int64_t in = w.shape()[3], out = w.shape()[0];
  const Tiles tiles(x.shape(), y.shape(), options.pad_before[0], options.pad_before[1]);
  const Temporary filters(DType::f32, {kPlaces, in, out}, stream);
  cpu::submit(stream, [=, &transform = transforms(), &products = tile_products(), w = w.data<float>(),
                       u = filters.data<float>()] {
    for_each_block(out, products.width, kPlaces * in * out, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t plane = (end - begin) * in;
      float* const rows = floats_of_thread(kPlaces * plane);
      for (std::int64_t o = begin; o < end; ++o) {
        transform.filter(rows + (o - begin) * in, plane, products.width, taps(w + o * 9 * in, in).data(), in);
      }
      for (std::int64_t i = 0; i < kPlaces; ++i) {
        products.pack_transposed(u + i * in * out + begin * in, rows + i * plane, in, end - begin, in);
      }
    });
  });
  convolve(y.data<float>(), x.data<float>(), filters, b ? b.data<float>() : nullptr, tiles, in, out, stream);
}

void backward_data(const Tensor& dx, const Tensor& dz, const Tensor& w, const Conv2dOptions& options,
                   const Stream& stream) {
  const std::int64_t in = w.shape()[0], out = w.shape()[3];
  const Tiles tiles(dz.shape(), dx.shape(), 2 - options.pad_before[0], 2 - options.pad_before[1]);
  const Temporary filters(DType::f32, {kPlaces, in, out}, stream);
  cpu::submit(stream, [=, &transform = transforms(), width = tile_products().width, w = w.data<float>(),
                       u = filters.data<float>()] {
    for_each_block(in, 8, kPlaces * in * out, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {  // taps in reverse order
        transform.filter(u + o * width, in * out, in * width, taps(w + (o * 9 + 8) * out, -out).data(), out);
      }
    });
  });
  convolve(dx.data<float>(), dz.data<float>(), filters, nullptr, tiles, in, out, stream);
}

void backward_weights(const Tensor& dw, const Tensor& dz, const Tensor& x, const Conv2dOptions& options,
                      const Stream& stream) {
  constexpr std::int64_t kTiles = 128;  // at a time
  const std::int64_t in = x.shape()[3], out = dz.shape()[3];
  const Tiles tiles(x.shape(), dz.shape(), options.pad_before[0], options.pad_before[1]);
  const std::int64_t most = std::min(kTiles, tiles.count());
  const Temporary memory(DType::f32, {kPlaces * (most * (in + out) + in * out) + std::max(in, out)}, stream);
  cpu::submit(stream, [=, &transform = transforms(), &products = tile_products(), dw = dw.data<float>(),
                       dz = dz.data<float>(), x = x.data<float>(), v = memory.data<float>()] {
    const std::int64_t width = products.width;
    float *const m = v + kPlaces * most * in, *const du = m + kPlaces * most * out,
                 *const outside = du + kPlaces * in * out;
    std::fill_n(outside, std::max(in, out), 0.0f);
    for (std::int64_t first = 0; first < tiles.count(); first += most) {
      const std::int64_t count = std::min(most, tiles.count() - first);
      for_each_block(count, 8, kPlaces * count * (in + out), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          transform.input(v + t * width, count * in, count * width,
                          tiles.inputs<const float>(first + t, x, in, outside).data(), in);
          transform.output_gradient(m + t * width, count * out, count * width,
                                    tiles.outputs<const float>(first + t, dz, out, outside).data(), out);
        }
      });
      const std::int64_t panels = out / width;
      for_each_block(kPlaces * panels, 1, kPlaces * count * in * out, [&](std::int64_t unit, std::int64_t) {
        const std::int64_t i = unit / panels, o = unit % panels * width;
        // Each block is summed separately first: one long sum would be several times less accurate.
        float* const sums = du + (i * out + o) * in;
        float* const of_block = first > 0 ? floats_of_thread(width * in) : sums;
        products.multiply({.out = of_block,
                           .out_row = in,
                           .left = m + (i * out + o) * count,
                           .left_row = 1,
                           .left_term = width,
                           .right = v + i * in * count,
                           .panel_rows = count,
                           .rows = width,
                           .columns = in,
                           .terms = count,
                           .adds = false});
        for (std::int64_t j = 0; first > 0 && j < width * in; ++j) sums[j] += of_block[j];
      });
    }
    for_each_block(out, 8, kPlaces * in * out, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        transform.filter_gradient(taps(dw + o * 9 * in, in).data(), du + o * in, in * out, nullptr, in);
      }
    });
  });
}

}  // namespace giro::cpu::winograd
