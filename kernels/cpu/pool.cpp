#include "kernels/functors/pool.h"

#include "kernels/backends.h"
#include "kernels/cpu/for_each.h"
#include "kernels/cpu/one_dnn.h"

namespace giro::cpu {
namespace {

using dnnl::memory;

memory::desc image(const Shape& shape) {
  return memory::desc({shape[0], shape[3], shape[1], shape[2]}, memory::data_type::f32, memory::format_tag::nhwc);
}

// How far the last window reaches beyond the image: never, so zero or less.
memory::dims overhang(const Shape& x, const Shape& y, const PoolOptions& options) {
  return {(y[1] - 1) * options.stride[0] + options.window[0] - x[1],
          (y[2] - 1) * options.stride[1] + options.window[1] - x[2]};
}

// Elements that the windows read together.
std::int64_t work_of(const Shape& y, const PoolOptions& options) {
  return y.count() * options.window[0] * options.window[1];
}

dnnl::pooling_forward::primitive_desc forward(dnnl::algorithm algorithm, const Shape& x, const Shape& y,
                                              const PoolOptions& options, const dnnl::engine& engine) {
  const memory::dims stride(options.stride.begin(), options.stride.end());
  const memory::dims window(options.window.begin(), options.window.end());
  return {{dnnl::prop_kind::forward_inference, algorithm, image(x), image(y), stride, window, {0, 0},
           overhang(x, y, options)},
          engine};
}

void pool(dnnl::algorithm algorithm, const Tensor& y, const Tensor& x, const PoolOptions& options,
          const Stream& stream) {
  if (y.count() == 0) return;
  const std::int64_t work = work_of(y.shape(), options);
  one_dnn::checked("pooling", [&] {
    const one_dnn::ThreadLimit limit(work);
    const dnnl::engine engine = one_dnn::engine();
    const auto desc = forward(algorithm, x.shape(), y.shape(), options, engine);
    one_dnn::submit(stream, "pooling", work, engine, dnnl::pooling_forward(desc),
                    {{DNNL_ARG_SRC, one_dnn::memory(x, image(x.shape()), engine)},
                     {DNNL_ARG_DST, one_dnn::memory(y, image(y.shape()), engine)}});
  });
}

}  // namespace

void avg_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream) {
  pool(dnnl::algorithm::pooling_avg_exclude_padding, y, x, options, stream);
}

void avg_pool_backward(const Tensor& dx, const Tensor& dy, const PoolOptions& options, const Stream& stream) {
  if (dy.count() == 0) {
    cpu::fill(dx, 0, stream);
    return;
  }
  const std::int64_t work = work_of(dy.shape(), options);
  one_dnn::checked("pooling", [&] {
    const one_dnn::ThreadLimit limit(work);
    const dnnl::engine engine = one_dnn::engine();
    const auto hint = forward(dnnl::algorithm::pooling_avg_exclude_padding, dx.shape(), dy.shape(), options, engine);
    const memory::dims stride(options.stride.begin(), options.stride.end());
    const memory::dims window(options.window.begin(), options.window.end());
    const dnnl::pooling_backward::desc desc(dnnl::algorithm::pooling_avg_exclude_padding, image(dx.shape()),
                                            image(dy.shape()), stride, window, {0, 0},
                                            overhang(dx.shape(), dy.shape(), options));
    one_dnn::submit(stream, "pooling", work, engine, dnnl::pooling_backward({desc, engine, hint}),
                    {{DNNL_ARG_DIFF_DST, one_dnn::memory(dy, image(dy.shape()), engine)},
                     {DNNL_ARG_DIFF_SRC, one_dnn::memory(dx, image(dx.shape()), engine)}});
  });
}

void max_pool(const Tensor& y, const Tensor& x, const PoolOptions& options, const Stream& stream) {
  pool(dnnl::algorithm::pooling_max, y, x, options, stream);
}

// oneDNN's own wants a workspace from the forward pass; x and y say as much.
void max_pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y,
                       const PoolOptions& options, const Stream& stream) {
  functors::max_pool_backward(ForEach{stream}, dx, dy, x, y, options);
}

}  // namespace giro::cpu
