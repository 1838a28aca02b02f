#include "kernels/functors/pool.h"

#include <giro/kernels/elementwise.h>

#include <algorithm>

#include "kernels/cpu/for_each.h"
#include "kernels/cpu/one_dnn.h"
#include "kernels/internal/ops.h"

namespace giro::cpu {
namespace {

using dnnl::memory;

memory::desc image(const Shape& shape) {
  return memory::desc({shape[0], shape[3], shape[1], shape[2]}, memory::data_type::f32, memory::format_tag::nhwc);
}

// How many elements all windows read in total.
std::int64_t work_of(const Shape& y, const PoolOptions& options) {
  return y.count() * options.window[0] * options.window[1];
}

// f32 memory for a tensor's elements: where windows overlap, oneDNN would sum 16-bit values in 16 bits.
struct Floats {
  Buffer memory;
  Tensor tensor;
  Floats(const Tensor& of, const Stream& stream)
      : memory(stream.allocate(static_cast<std::size_t>(of.count()) * sizeof(float))),
        tensor(memory.data(), DType::f32, of.shape(), of.device()) {}
};

// Identifies an average pooling.
struct PoolKey {
  Shape x, y;
  PoolOptions options;
  bool operator==(const PoolKey&) const = default;
};

struct AveragePooling {
  static constexpr auto kAlgorithm = dnnl::algorithm::pooling_avg_exclude_padding;
  memory::desc x, y;
  memory::dims stride, window, dilation{0, 0}, pad_before{0, 0}, pad_after;

  explicit AveragePooling(const PoolKey& key)
      : x(image(key.x)),
        y(image(key.y)),
        stride(key.options.stride.begin(), key.options.stride.end()),
        window(key.options.window.begin(), key.options.window.end()),
        // How far the last window reaches beyond the image. It never does, so this is zero or less.
        pad_after{(key.y[1] - 1) * stride[0] + window[0] - key.x[1],
                  (key.y[2] - 1) * stride[1] + window[1] - key.x[2]} {}
};

one_dnn::PoolingForward::primitive_desc describe_forward(const AveragePooling& p) {
  return one_dnn::describe<one_dnn::PoolingForward>(dnnl::prop_kind::forward_inference, AveragePooling::kAlgorithm, p.x,
                                                    p.y, p.stride, p.window, p.dilation, p.pad_before, p.pad_after);
}

struct PoolForward : AveragePooling, one_dnn::Kernel<one_dnn::PoolingForward> {
  explicit PoolForward(const PoolKey& key) : AveragePooling(key), Kernel(describe_forward(*this)) {}
};

struct PoolBackward : AveragePooling, one_dnn::Kernel<one_dnn::PoolingBackward> {
  explicit PoolBackward(const PoolKey& key)
      : AveragePooling(key),
        Kernel(one_dnn::describe_backward<one_dnn::PoolingBackward>(describe_forward(*this), kAlgorithm, x, y, stride,
                                                                    window, dilation, pad_before, pad_after)) {}
};

// Queues a pooling in parts. `arguments` returns the oneDNN arguments for a part of x and y.
template <class Made, class F>
void run_parts(const Tensor& x, const Tensor& y, const PoolOptions& options, const Stream& stream, const F& arguments) {
  const std::int64_t images = x.shape()[0], size = one_dnn::part_size(images, work_of(y.shape(), options));
  one_dnn::Parts parts;
  for (std::int64_t begin = 0; begin < images; begin += size) {
    const std::int64_t end = std::min(begin + size, images);
    const Tensor x_part = x.rows(begin, end), y_part = y.rows(begin, end);
    const auto pooling = one_dnn::kernel_of<Made>(PoolKey{x_part.shape(), y_part.shape(), options});
    parts.add(*pooling, arguments(*pooling, x_part, y_part));
  }
  std::move(parts).submit(stream, "pooling");
}

// One pixel of y: the largest value of its window in each channel. A NaN is larger than every number.
template <class T>
struct MaxPool {
  static constexpr int kLanes = 16;  // floats in the widest vector
  T* y;
  const T* x;
  std::int64_t height, width, channels, out_height, out_width;
  std::int64_t window_h, window_w, stride_h, stride_w;

  void operator()(std::int64_t pixel) const {
    const std::int64_t row = pixel / out_width, n = row / out_height;
    const std::int64_t h = row % out_height * stride_h, w = pixel % out_width * stride_w;
    const T* window = x + ((n * height + h) * width + w) * channels;
    T* out = y + pixel * channels;
    std::int64_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) largest<kLanes>(out + c, window + c);
    for (; c < channels; ++c) largest<1>(out + c, window + c);
  }

  template <int kChannels>
  void largest(T* out, const T* window) const {
    float best[kChannels];
    std::copy_n(window, kChannels, best);
    for (std::int64_t h = 0; h < window_h; ++h) {
      for (std::int64_t w = 0; w < window_w; ++w) {
        const T* values = window + (h * width + w) * channels;
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

// `rows`: of y, over all images.
template <class F, class T>
void pool_rows(const functors::ActivationAveragePool<F, T>& pool, std::int64_t rows) {
  constexpr std::int64_t kChannels = 64;  // summed at a time
  const std::int64_t out_width = pool.width / pool.window_w, channels = pool.channels;
  const std::int64_t work = rows * pool.window_h * pool.width * channels;
  const auto divisor = static_cast<float>(pool.window_h * pool.window_w);
  const std::int64_t block = std::max<std::int64_t>(1, kBlock * rows / std::max<std::int64_t>(1, work));
  for_each_block(rows, block, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin * out_width; o < end * out_width; ++o) {
      const std::int64_t row = o / out_width, w = o % out_width;
      const T* const window = pool.z + (row * pool.window_h * pool.width + w * pool.window_w) * channels;
      for (std::int64_t first = 0; first < channels; first += kChannels) {
        const std::int64_t count = std::min(kChannels, channels - first);
        float sums[kChannels] = {};
        for (std::int64_t i = 0; i < pool.window_h; ++i) {
          for (std::int64_t j = 0; j < pool.window_w; ++j) {
            const T* const pixel = window + (i * pool.width + j) * channels + first;
#pragma omp simd
            for (std::int64_t c = 0; c < count; ++c) sums[c] += pool.term(pixel[c]);
          }
        }
        T* const out = pool.y + o * channels + first;
#pragma omp simd
        for (std::int64_t c = 0; c < count; ++c) out[c] = T(sums[c] / divisor);
      }
    }
  });
}

template <class F, class T>
void pool_rows_backward(const functors::AveragePoolActivationBackward<F, T>& pool, std::int64_t count) {
  const std::int64_t channels = pool.channels, row_size = pool.width * channels;
  const std::int64_t rows = row_size > 0 ? count / row_size : 0;
  for_each_block(rows, std::max<std::int64_t>(1, kBlock / std::max<std::int64_t>(1, row_size)), count,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r) {
                     const T* const dy_row = pool.dy + r / pool.window_h * (row_size / pool.window_w);
                     for (std::int64_t w = 0; w < pool.width; ++w) {
                       const T* const dy_pixel = dy_row + w / pool.window_w * channels;
                       const T* const x_pixel = pool.x + r * row_size + w * channels;
                       T* const out = pool.dz + r * row_size + w * channels;
#pragma omp simd
                       for (std::int64_t c = 0; c < channels; ++c) {
                         out[c] = pool.gradient(dy_pixel[c], x_pixel[c]);
                       }
                     }
                   }
                 });
}

}  // namespace

void run(const ops::AvgPool& op, const Stream& stream) {
  if (op.y.count() == 0) return;
  if (pool_windows_tile(op.x.shape(), op.options))
    return cpu::run(ops::ActivationAvgPool{.y = op.y, .z = op.x, .options = op.options}, stream);
  if (op.y.dtype() != DType::f32) {
    const Floats wide_x(op.x, stream), wide_y(op.y, stream);
    giro::cast(wide_x.tensor, op.x, stream);
    cpu::run(ops::AvgPool{wide_y.tensor, wide_x.tensor, op.options}, stream);
    return giro::cast(op.y, wide_y.tensor, stream);
  }
  one_dnn::checked("pooling", [&] {
    run_parts<PoolForward>(op.x, op.y, op.options, stream, [](const PoolForward& p, const Tensor& x, const Tensor& y) {
      return one_dnn::Arguments{{DNNL_ARG_SRC, one_dnn::memory(x, p.x)}, {DNNL_ARG_DST, one_dnn::memory(y, p.y)}};
    });
  });
}

void run(const ops::AvgPoolBackward& op, const Stream& stream) {
  if (op.dy.count() == 0) {
    giro::fill(op.dx, 0, stream);
    return;
  }
  if (pool_windows_tile(op.dx.shape(), op.options)) {
    return cpu::run(ops::AvgPoolActivationBackward{.dz = op.dx, .dy = op.dy, .x = op.dx, .options = op.options},
                    stream);
  }
  if (op.dx.dtype() != DType::f32) {
    const Floats wide_dx(op.dx, stream), wide_dy(op.dy, stream);
    giro::cast(wide_dy.tensor, op.dy, stream);
    cpu::run(ops::AvgPoolBackward{wide_dx.tensor, wide_dy.tensor, op.options}, stream);
    return giro::cast(op.dx, wide_dx.tensor, stream);
  }
  one_dnn::checked("pooling", [&] {
    run_parts<PoolBackward>(op.dx, op.dy, op.options, stream,
                            [](const PoolBackward& p, const Tensor& dx, const Tensor& dy) {
                              return one_dnn::Arguments{{DNNL_ARG_DIFF_DST, one_dnn::memory(dy, p.y)},
                                                        {DNNL_ARG_DIFF_SRC, one_dnn::memory(dx, p.x)}};
                            });
  });
}

void run(const ops::ActivationAvgPool& op, const Stream& stream) {
  functors::with_activation(op.has_relu, [&]<class F>(F) {
    functors::with_storage(op.y.dtype(), [&]<class T>(functors::Type<T>) {
      submit(stream, [pool = functors::ActivationAveragePool<F, T>(op.y, op.z, op.options),
                      rows = op.y.shape()[0] * op.y.shape()[1]] { pool_rows(pool, rows); });
    });
  });
}

void run(const ops::AvgPoolActivationBackward& op, const Stream& stream) {
  functors::with_activation(op.has_relu, [&]<class F>(F) {
    functors::with_storage(op.dz.dtype(), [&]<class T>(functors::Type<T>) {
      submit(stream, [pool = functors::AveragePoolActivationBackward<F, T>(op.dz, op.dy, op.x, op.options),
                      count = op.dz.count()] { pool_rows_backward(pool, count); });
    });
  });
  if (op.db)
    cpu::run(ops::SumRows{op.db, op.dz.reshape({op.db.count() > 0 ? op.dz.count() / op.db.count() : 0, op.db.count()})},
             stream);
}

// Not with oneDNN, which ignores NaN.
void run(const ops::MaxPool& op, const Stream& stream) {
  const std::int64_t pixels = op.y.shape()[0] * op.y.shape()[1] * op.y.shape()[2],
                     work = work_of(op.y.shape(), op.options);
  if (work == 0) return;
  functors::with_storage(op.y.dtype(), [&]<class T>(functors::Type<T>) {
    const MaxPool<T> pool{op.y.data<T>(),       op.x.data<T>(),       op.x.shape()[1],     op.x.shape()[2],
                          op.x.shape()[3],      op.y.shape()[1],      op.y.shape()[2],     op.options.window[0],
                          op.options.window[1], op.options.stride[0], op.options.stride[1]};
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
  functors::with_storage(op.dx.dtype(), [&]<class T>(functors::Type<T>) {
    ForEach{stream}(op.dx.count(), functors::PoolBackward<true, T>(op.dx, op.dy, op.x, op.y, op.options));
  });
}

}  // namespace giro::cpu
