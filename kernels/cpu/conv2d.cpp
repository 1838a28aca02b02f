#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/cpu/one_dnn.h"
#include "kernels/internal/backends.h"

namespace giro::cpu {
namespace {

using dnnl::memory;

// What tells one convolution from another.
struct Key {
  Shape x, w, y;
  DType dtype;                 // of these
  std::optional<DType> b, dw;  // where they are asked for
  Conv2dOptions options;
  bool operator==(const Key&) const = default;
};

// Its descriptors. Images lie as giro keeps them (NHWC); filters may be reordered into whatever layout oneDNN computes
// fastest.
struct Convolution {
  memory::dims x_dims, w_dims, y_dims, stride, pad_before, pad_after;
  memory::desc x, w_given, w_any, dw_given, dw_any, b, y;

  explicit Convolution(const Key& key)
      : x_dims{key.x[0], key.x[3], key.x[1], key.x[2]},
        w_dims{key.w[0], key.w[3], key.w[1], key.w[2]},
        y_dims{key.y[0], key.y[3], key.y[1], key.y[2]},
        stride(key.options.stride.begin(), key.options.stride.end()),
        pad_before(key.options.pad_before.begin(), key.options.pad_before.end()),
        // What the stride leaves over at the end is no padding.
        pad_after{(key.y[1] - 1) * stride[0] + key.w[1] - key.x[1] - pad_before[0],
                  (key.y[2] - 1) * stride[1] + key.w[2] - key.x[2] - pad_before[1]},
        x(x_dims, one_dnn::data_type(key.dtype), memory::format_tag::nhwc),
        w_given(w_dims, one_dnn::data_type(key.dtype), memory::format_tag::ohwi),
        w_any(w_dims, one_dnn::data_type(key.dtype), memory::format_tag::any),
        y(y_dims, one_dnn::data_type(key.dtype), memory::format_tag::nhwc) {
    if (key.b) b = memory::desc({key.w[0]}, one_dnn::data_type(*key.b), memory::format_tag::x);
    if (!key.dw) return;
    dw_given = memory::desc(w_dims, one_dnn::data_type(*key.dw), memory::format_tag::ohwi);
    dw_any = memory::desc(w_dims, one_dnn::data_type(*key.dw), memory::format_tag::any);
  }
};

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc describe_forward(const Convolution& c) {
  return one_dnn::describe<dnnl::convolution_forward>(dnnl::prop_kind::forward_training, kDirect, c.x, c.w_any, c.b,
                                                      c.y, c.stride, c.pad_before, c.pad_after);
}

struct Forward : Convolution, one_dnn::Kernel<dnnl::convolution_forward> {
  explicit Forward(const Key& key) : Convolution(key), Kernel(describe_forward(*this)) {}
};

struct BackwardWeights : Convolution, one_dnn::Kernel<dnnl::convolution_backward_weights> {
  explicit BackwardWeights(const Key& key)
      : Convolution(key),
        Kernel(one_dnn::describe_backward<dnnl::convolution_backward_weights>(
            describe_forward(*this), kDirect, x, dw_any, b, y, stride, pad_before, pad_after)) {}
};

struct BackwardData : Convolution, one_dnn::Kernel<dnnl::convolution_backward_data> {
  explicit BackwardData(const Key& key)
      : Convolution(key),
        Kernel(one_dnn::describe_backward<dnnl::convolution_backward_data>(describe_forward(*this), kDirect, x, w_any,
                                                                           y, stride, pad_before, pad_after)) {}
};

// Multiplications of one direction.
std::int64_t work_of(const Shape& y, const Shape& w) { return y.count() * w.drop_front().count(); }

}  // namespace

void conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, Activation f,
            const Conv2dOptions& options, Math, const Stream& stream) {
  if (y.count() == 0) return;
  one_dnn::checked("conv2d", [&] {
    const one_dnn::ThreadLimit limit(one_dnn::threads_for(work_of(y.shape(), w.shape())));
    const auto c =
        one_dnn::kernel_of<Forward>(Key{x.shape(), w.shape(), y.shape(), w.dtype(), one_dnn::dtype_of(b), {}, options});
    const memory weights = one_dnn::in_layout(stream, one_dnn::memory(w, c->w_given), c->desc.weights_desc());
    one_dnn::Arguments arguments{{DNNL_ARG_SRC, one_dnn::memory(x, c->x)},
                                 {DNNL_ARG_WEIGHTS, weights},
                                 {DNNL_ARG_DST, one_dnn::memory(y, c->y)}};
    if (b) arguments.emplace(DNNL_ARG_BIAS, one_dnn::memory(b, c->b));
    one_dnn::submit(stream, "conv2d", *c, std::move(arguments));
  });
  // Not as oneDNN's post-op, whose relu turns a NaN into a zero.
  if (f != Activation::none) cpu::activation(y, y, f, stream);
}

void conv2d_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                     const Tensor& w, const Conv2dOptions& options, Math, const Stream& stream) {
  if (dz.count() == 0) {
    for (const Tensor* out : {&dx, &dw, &db}) {
      if (*out) cpu::fill(*out, 0, stream);
    }
    return;
  }
  one_dnn::checked("conv2d_backward", [&] {
    const one_dnn::ThreadLimit limit(one_dnn::threads_for(work_of(dz.shape(), w.shape())));
    const Key key{x.shape(), w.shape(), dz.shape(), w.dtype(), {}, {}, options};
    if (dw) {
      Key with_gradients = key;
      with_gradients.b = one_dnn::dtype_of(db);
      with_gradients.dw = dw.dtype();
      const auto c = one_dnn::kernel_of<BackwardWeights>(with_gradients);
      const memory given = one_dnn::memory(dw, c->dw_given);
      const bool reorders = c->desc.diff_weights_desc() != c->dw_given;
      const memory computed = reorders ? memory(c->desc.diff_weights_desc(), one_dnn::engine()) : given;
      one_dnn::Arguments arguments{{DNNL_ARG_SRC, one_dnn::memory(x, c->x)},
                                   {DNNL_ARG_DIFF_DST, one_dnn::memory(dz, c->y)},
                                   {DNNL_ARG_DIFF_WEIGHTS, computed}};
      if (db) arguments.emplace(DNNL_ARG_DIFF_BIAS, one_dnn::memory(db, c->b));
      one_dnn::submit(stream, "conv2d_backward", *c, std::move(arguments));
      if (reorders) one_dnn::reorder(stream, computed, given);
    } else if (db) {
      cpu::sum_rows(db, dz.reshape({dz.count() / dz.shape()[3], dz.shape()[3]}), stream);
    }
    if (dx) {
      const auto c = one_dnn::kernel_of<BackwardData>(key);
      const memory weights = one_dnn::in_layout(stream, one_dnn::memory(w, c->w_given), c->desc.weights_desc());
      one_dnn::submit(stream, "conv2d_backward", *c,
                      {{DNNL_ARG_DIFF_DST, one_dnn::memory(dz, c->y)},
                       {DNNL_ARG_WEIGHTS, weights},
                       {DNNL_ARG_DIFF_SRC, one_dnn::memory(dx, c->x)}});
    }
  });
}

}  // namespace giro::cpu
