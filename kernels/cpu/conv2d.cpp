#include "kernels/cpu/one_dnn.h"
#include "kernels/internal/backends.h"

namespace giro::cpu {
namespace {

using dnnl::memory;

// The descriptors of one convolution. Images lie as giro keeps them (NHWC); filters may be reordered into whatever
// layout oneDNN computes fastest.
struct Convolution {
  memory::dims x_dims, w_dims, y_dims, stride, pad_before, pad_after;
  memory::desc x, w_given, w_any, b, y;

  // x, w and y are of one dtype; `bias`, of which the dtype matters alone, may be empty.
  Convolution(const Shape& xs, const Shape& ws, const Shape& ys, memory::data_type dtype, const Tensor& bias,
              const Conv2dOptions& options)
      : x_dims{xs[0], xs[3], xs[1], xs[2]},
        w_dims{ws[0], ws[3], ws[1], ws[2]},
        y_dims{ys[0], ys[3], ys[1], ys[2]},
        stride(options.stride.begin(), options.stride.end()),
        pad_before(options.pad_before.begin(), options.pad_before.end()),
        // What the stride leaves over at the end is no padding.
        pad_after{(ys[1] - 1) * stride[0] + ws[1] - xs[1] - pad_before[0],
                  (ys[2] - 1) * stride[1] + ws[2] - xs[2] - pad_before[1]},
        x(x_dims, dtype, memory::format_tag::nhwc),
        w_given(w_dims, dtype, memory::format_tag::ohwi),
        w_any(w_dims, dtype, memory::format_tag::any),
        y(y_dims, dtype, memory::format_tag::nhwc) {
    if (bias) b = memory::desc({ws[0]}, one_dnn::data_type(bias.dtype()), memory::format_tag::x);
  }

  // Multiplications of one direction.
  std::int64_t work() const {
    return y_dims[0] * y_dims[2] * y_dims[3] * w_dims[0] * w_dims[1] * w_dims[2] * w_dims[3];
  }

  dnnl::convolution_forward::primitive_desc forward(const dnnl::engine& engine) const {
    return one_dnn::describe<dnnl::convolution_forward>(engine, dnnl::prop_kind::forward_training,
                                                        dnnl::algorithm::convolution_direct, x, w_any, b, y, stride,
                                                        pad_before, pad_after);
  }
};

}  // namespace

void conv2d(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, Activation f,
            const Conv2dOptions& options, Math, const Stream& stream) {
  if (y.count() == 0) return;
  one_dnn::checked("conv2d", [&] {
    const dnnl::engine engine = one_dnn::engine();
    const Convolution c(x.shape(), w.shape(), y.shape(), one_dnn::data_type(w.dtype()), b, options);
    const one_dnn::ThreadLimit limit(c.work());
    const auto desc = c.forward(engine);
    one_dnn::Arguments arguments{
        {DNNL_ARG_SRC, one_dnn::memory(x, c.x, engine)},
        {DNNL_ARG_WEIGHTS,
         one_dnn::in_layout(stream, engine, one_dnn::memory(w, c.w_given, engine), desc.weights_desc())},
        {DNNL_ARG_DST, one_dnn::memory(y, c.y, engine)}};
    if (b) arguments.emplace(DNNL_ARG_BIAS, one_dnn::memory(b, c.b, engine));
    one_dnn::submit(stream, "conv2d", c.work(), engine, dnnl::convolution_forward(desc), std::move(arguments));
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
    const dnnl::engine engine = one_dnn::engine();
    const Convolution c(x.shape(), w.shape(), dz.shape(), one_dnn::data_type(w.dtype()), db, options);
    const one_dnn::ThreadLimit limit(c.work());
    const auto hint = c.forward(engine);
    const memory dz_memory = one_dnn::memory(dz, c.y, engine);
    if (dw) {
      const auto found = one_dnn::describe_backward<dnnl::convolution_backward_weights>(
          engine, hint, dnnl::algorithm::convolution_direct, c.x,
          memory::desc(c.w_dims, one_dnn::data_type(dw.dtype()), memory::format_tag::any), c.b, c.y, c.stride,
          c.pad_before, c.pad_after);
      const memory::desc given_desc(c.w_dims, one_dnn::data_type(dw.dtype()), memory::format_tag::ohwi);
      const memory given = one_dnn::memory(dw, given_desc, engine);
      const bool reorder = found.diff_weights_desc() != given_desc;
      const memory computed = reorder ? memory(found.diff_weights_desc(), engine) : given;
      one_dnn::Arguments arguments{{DNNL_ARG_SRC, one_dnn::memory(x, c.x, engine)},
                                   {DNNL_ARG_DIFF_DST, dz_memory},
                                   {DNNL_ARG_DIFF_WEIGHTS, computed}};
      if (db) arguments.emplace(DNNL_ARG_DIFF_BIAS, one_dnn::memory(db, c.b, engine));
      one_dnn::submit(stream, "conv2d_backward", c.work(), engine, dnnl::convolution_backward_weights(found),
                      std::move(arguments));
      if (reorder) one_dnn::reorder(stream, engine, computed, given);
    } else if (db) {
      cpu::sum_rows(db, dz.reshape({dz.count() / dz.shape()[3], dz.shape()[3]}), stream);
    }
    if (dx) {
      const auto found = one_dnn::describe_backward<dnnl::convolution_backward_data>(
          engine, hint, dnnl::algorithm::convolution_direct, c.x, c.w_any, c.y, c.stride, c.pad_before, c.pad_after);
      one_dnn::submit(stream, "conv2d_backward", c.work(), engine, dnnl::convolution_backward_data(found),
                      {{DNNL_ARG_DIFF_DST, dz_memory},
                       {DNNL_ARG_WEIGHTS, one_dnn::in_layout(stream, engine, one_dnn::memory(w, c.w_given, engine),
                                                             found.weights_desc())},
                       {DNNL_ARG_DIFF_SRC, one_dnn::memory(dx, c.x, engine)}});
    }
  });
}

}  // namespace giro::cpu
