#include "kernels/host_device/pool_windows.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/cpu/for_each.h"
#include "kernels/cpu/one_dnn.h"
#include "kernels/elementwise.h"
#include "kernels/ops.h"

namespace giro::cpu {
namespace {

using dnnl::memory;

// How many elements all windows read in total.
std::int64_t work_of(const Shape& y, const PoolOptions& options) {
  return y.count() * options.window[0] * options.window[1];
}

// Identifies an average pooling.
struct PoolKey {
  Shape x, y;
  PoolOptions options;
  bool operator==(const PoolKey&) const = default;
};

struct AveragePooling {
  dnnl::algorithm algorithm;
  memory::desc x, y;
  memory::dims stride, window, dilation{0, 0}, pad_before, pad_after;

  explicit AveragePooling(const PoolKey& key)
      : algorithm(key.options.count_include_pad ? dnnl::algorithm::pooling_avg_include_padding
                                                : dnnl::algorithm::pooling_avg_exclude_padding),
        x(one_dnn::images(key.x, DType::f32)),
        y(one_dnn::images(key.y, DType::f32)),
        stride(key.options.stride.begin(), key.options.stride.end()),
        window(key.options.window.begin(), key.options.window.end()),
        pad_before(key.options.pad_before.begin(), key.options.pad_before.end()),
        // How far the last window reaches beyond the image: less than zero if pixels are left over.
        pad_after{(key.y[1] - 1) * stride[0] + window[0] - key.x[1] - pad_before[0],
                  (key.y[2] - 1) * stride[1] + window[1] - key.x[2] - pad_before[1]} {}
};

one_dnn::PoolingForward::primitive_desc describe_forward(const AveragePooling& p) {
  return one_dnn::describe<one_dnn::PoolingForward>(one_dnn::skips_none, dnnl::prop_kind::forward_inference,
                                                    p.algorithm, p.x, p.y, p.stride, p.window, p.dilation, p.pad_before,
                                                    p.pad_after);
}

struct PoolForward : AveragePooling, one_dnn::Kernel<one_dnn::PoolingForward> {
  static constexpr int kX = DNNL_ARG_SRC, kY = DNNL_ARG_DST;
  explicit PoolForward(const PoolKey& key) : AveragePooling(key), Kernel(describe_forward(*this)) {}
};

struct PoolBackward : AveragePooling, one_dnn::Kernel<one_dnn::PoolingBackward> {
  static constexpr int kX = DNNL_ARG_DIFF_SRC, kY = DNNL_ARG_DIFF_DST;
  explicit PoolBackward(const PoolKey& key)
      : AveragePooling(key),
        Kernel(one_dnn::describe_backward<one_dnn::PoolingBackward>(one_dnn::skips_none, describe_forward(*this),
                                                                    algorithm, x, y, stride, window, dilation,
                                                                    pad_before, pad_after)) {}
};

// Queues a pooling of f32 or its gradient, in parts.
template <class Made>
void run_parts(const Tensor& x, const Tensor& y, const PoolOptions& options, const Stream& stream) {
  const std::int64_t images = x.shape()[0], size = one_dnn::part_size(images, work_of(y.shape(), options));
  one_dnn::checked("pooling", [&] {
    one_dnn::Parts parts;
    for (std::int64_t begin = 0; begin < images; begin += size) {
      const std::int64_t end = std::min(begin + size, images);
      const Tensor x_part = x.rows(begin, end), y_part = y.rows(begin, end);
      const auto pooling = one_dnn::kernel_of<Made>(PoolKey{x_part.shape(), y_part.shape(), options});
      parts.add(*pooling,
                {{Made::kX, one_dnn::memory(x_part, pooling->x)}, {Made::kY, one_dnn::memory(y_part, pooling->y)}});
    }
    std::move(parts).submit(stream, "pooling");
  });
}

// One pixel of y: the largest value of its window in each channel. A NaN is larger than every number.
template <class T>
struct MaxPool {
  static constexpr int kLanes = 16;  // floats in the widest vector
  T* y;
  const T* x;
  std::int64_t channels;
  host_device::PoolAxis<std::int64_t> rows, columns;

  void operator()(std::int64_t pixel) const {
    const std::int64_t row = pixel / columns.windows, n = row / rows.windows;
    const std::int64_t oh = row % rows.windows, ow = pixel % columns.windows;
    const T* window = x + ((n * rows.pixels + rows.begin(oh)) * columns.pixels + columns.begin(ow)) * channels;
    T* out = y + pixel * channels;
    std::int64_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) largest<kLanes>(out + c, window + c, rows.count(oh), columns.count(ow));
    for (; c < channels; ++c) largest<1>(out + c, window + c, rows.count(oh), columns.count(ow));
  }

  template <int kChannels>
  void largest(T* out, const T* window, std::int64_t height, std::int64_t width) const {
    float best[kChannels];
    std::copy_n(window, kChannels, best);
    for (std::int64_t h = 0; h < height; ++h) {
      for (std::int64_t w = 0; w < width; ++w) {
        const T* values = window + (h * columns.pixels + w) * channels;
#pragma omp simd
        for (int c = 0; c < kChannels; ++c) {
          const auto value = static_cast<float>(values[c]);
          best[c] = best[c] >= value || best[c] != best[c] ? best[c] : value;
        }
      }
    }
    std::copy_n(best, kChannels, out);
  }
};

using host_device::Relu;

// The average of windows that tile x, perhaps after a relu. `rows`: of y, over all images.
template <bool kHasRelu, class T>
void pool_tiles(T* y, const T* x, const Shape& of_x, const std::array<std::int64_t, 2>& window, std::int64_t rows) {
  constexpr std::int64_t kChannels = 64;  // summed at a time
  const std::int64_t width = of_x[2], channels = of_x[3], out_width = width / window[1];
  const std::int64_t work = rows * window[0] * width * channels;
  const auto divisor = static_cast<float>(window[0] * window[1]);
  const std::int64_t block = std::max<std::int64_t>(1, kBlock * rows / std::max<std::int64_t>(1, work));
  for_each_block(rows, block, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin * out_width; o < end * out_width; ++o) {
      const std::int64_t row = o / out_width, w = o % out_width;
      const T* const tile = x + (row * window[0] * width + w * window[1]) * channels;
      for (std::int64_t first = 0; first < channels; first += kChannels) {
        const std::int64_t count = std::min(kChannels, channels - first);
        float sums[kChannels] = {};
        for (std::int64_t i = 0; i < window[0]; ++i) {
          for (std::int64_t j = 0; j < window[1]; ++j) {
            const T* const pixel = tile + (i * width + j) * channels + first;
#pragma omp simd
            for (std::int64_t c = 0; c < count; ++c) {
              const auto value = static_cast<float>(pixel[c]);
              sums[c] += kHasRelu ? Relu::value(value) : value;
            }
          }
        }
        T* const out = y + o * channels + first;
#pragma omp simd
        for (std::int64_t c = 0; c < count; ++c) out[c] = T(sums[c] / divisor);
      }
    }
  });
}

// The gradient of that. Values between are rounded as if the relu had a gradient op of its own. Without a relu, x is
// not read.
template <bool kHasRelu, class T>
void tiles_backward(T* dx, const T* dy, const T* x, const Shape& of_x, const std::array<std::int64_t, 2>& window) {
  const std::int64_t width = of_x[2], channels = of_x[3], row_size = width * channels;
  const std::int64_t rows = row_size > 0 ? of_x.count() / row_size : 0;
  const float factor = 1.0f / static_cast<float>(window[0] * window[1]);
  const std::int64_t block = std::max<std::int64_t>(1, kBlock / std::max<std::int64_t>(1, row_size));
  for_each_block(rows, block, of_x.count(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* const dy_row = dy + r / window[0] * (row_size / window[1]);
      for (std::int64_t w = 0; w < width; ++w) {
        const T* const dy_pixel = dy_row + w / window[1] * channels;
        [[maybe_unused]] const T* const x_pixel = x + r * row_size + w * channels;
        T* const out = dx + r * row_size + w * channels;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
          const float share = factor * static_cast<float>(dy_pixel[c]);
          if constexpr (kHasRelu) {
            out[c] = T(Relu::gradient(host_device::stored<T>(share), static_cast<float>(x_pixel[c])));
          } else {
            out[c] = T(share);
          }
        }
      }
    }
  });
}

// Runs run(out, in), of 16-bit tensors on f32 copies: where windows overlap, oneDNN would sum in 16 bits.
template <class F>
void run_in_f32(const Tensor& out, const Tensor& in, const Stream& stream, const F& run) {
  if (out.dtype() == DType::f32) return run(out, in);
  const Temporary wide_in(DType::f32, in.shape(), stream), wide_out(DType::f32, out.shape(), stream);
  ops::cast(wide_in, in, stream);
  run(wide_out, wide_in);
  ops::cast(out, wide_out, stream);
}

}  // namespace

void run(const ops::AvgPool& op, const Stream& stream) {
  if (op.y.count() == 0) return;
  if (pool_windows_tile(op.x.shape(), op.options)) {
    return host_device::with_storage(op.y.dtype(), [&]<class T>(host_device::Type<T>) {
      const auto pool = op.has_relu ? pool_tiles<true, T> : pool_tiles<false, T>;
      submit(stream, [pool, y = op.y.data<T>(), x = op.x.data<T>(), of_x = op.x.shape(), window = op.options.window,
                      rows = op.y.shape()[0] * op.y.shape()[1]] { pool(y, x, of_x, window, rows); });
    });
  }
  run_in_f32(op.y, op.x, stream,
             [&](const Tensor& y, const Tensor& x) { run_parts<PoolForward>(x, y, op.options, stream); });
}

void run(const ops::AvgPoolBackward& op, const Stream& stream) {
  if (op.dy.count() == 0) {
    ops::fill(op.dx, 0, stream);
    if (op.db) ops::fill(op.db, 0, stream);
    return;
  }
  if (pool_windows_tile(op.dx.shape(), op.options)) {
    host_device::with_storage(op.dx.dtype(), [&]<class T>(host_device::Type<T>) {
      const auto backward = op.has_relu ? tiles_backward<true, T> : tiles_backward<false, T>;
      const Tensor& images = op.has_relu ? static_cast<const Tensor&>(op.x) : op.dx;
      submit(stream, [backward, dx = op.dx.data<T>(), dy = op.dy.data<T>(), x = images.data<T>(), of_x = op.dx.shape(),
                      window = op.options.window] { backward(dx, dy, x, of_x, window); });
    });
    const std::int64_t channels = op.dx.shape()[3];
    if (op.db) cpu::run(ops::SumRows{op.db, op.dx.reshape({op.dx.count() / channels, channels})}, stream);
    return;
  }
  run_in_f32(op.dx, op.dy, stream,
             [&](const Tensor& dx, const Tensor& dy) { run_parts<PoolBackward>(dx, dy, op.options, stream); });
}

// Not with oneDNN, which ignores NaN.
void run(const ops::MaxPool& op, const Stream& stream) {
  const std::int64_t pixels = op.y.shape()[0] * op.y.shape()[1] * op.y.shape()[2],
                     work = work_of(op.y.shape(), op.options);
  if (work == 0) return;
  host_device::with_storage(op.y.dtype(), [&]<class T>(host_device::Type<T>) {
    const MaxPool<T> pool{.y = op.y.data<T>(),
                          .x = op.x.data<T>(),
                          .channels = op.x.shape()[3],
                          .rows = {op.x, op.y, op.options, 0},
                          .columns = {op.x, op.y, op.options, 1}};
    submit(stream, [=] {
      for_each_block(pixels, std::max<std::int64_t>(1, kBlock * pixels / work), work,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t pixel = begin; pixel < end; ++pixel) pool(pixel);
                     });
    });
  });
}

// Not with oneDNN, which needs a workspace from the forward pass; x and y hold the same information.
void run(const ops::MaxPoolBackward& op, const Stream& stream) {
  host_device::with_storage(op.dx.dtype(), [&]<class T>(host_device::Type<T>) {
    for_each(stream, op.dx.count(), host_device::PoolBackward<true, T>(op.dx, op.dy, op.x, op.y, op.options));
  });
}

}  // namespace giro::cpu
