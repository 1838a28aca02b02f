#include <tuple>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>

#include "kernels/nn/weights.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

// The gradient of a convolution with respect to its images, and to its filters. Both are linear in either argument, and
// their gradients are convolutions again.
Var images_of(const Var& dz, const Var& w, const Shape& shape, const Conv2dOptions& options);
Var filters_of(const Var& dz, const Var& x, const Var& w, const Conv2dOptions& options);

Gradient gradient_of_images(const Conv2dOptions& options) {
  return [options](const Var&, const Var& g, const std::vector<Var>& in) {
    const auto [dz, w] = std::tie(in[0], in[1]);
    return Gradients{dz.requires_grad() ? conv2d(g, w, Var(), options) : Var(),
                     w.requires_grad() ? filters_of(dz, g, w, options) : Var()};
  };
}

Gradient gradient_of_filters(const Conv2dOptions& options) {
  return [options](const Var&, const Var& g, const std::vector<Var>& in) {
    const auto [dz, x] = std::tie(in[0], in[1]);
    return Gradients{dz.requires_grad() ? conv2d(x, g, Var(), options) : Var(),
                     x.requires_grad() ? images_of(dz, g, x.shape(), options) : Var()};
  };
}

Var images_of(const Var& given, const Var& w, const Shape& shape, const Conv2dOptions& options) {
  const Var dz = as_weights("conv2d_transpose", given, w);
  Var x = Var::computed(w.dtype(), shape, {dz, w}, gradient_of_images(options));
  queue(ops::Conv2dBackward{.dx = x.value(), .dz = dz.value(), .w = w.value(), .options = options, .math = w.math()},
        x.stream());
  return x;
}

Var filters_of(const Var& given_dz, const Var& given_x, const Var& w, const Conv2dOptions& options) {
  const Var dz = as_weights("conv2d", given_dz, w), x = as_weights("conv2d", given_x, w);
  Var dw = Var::computed(w.grad_dtype(), w.shape(), {dz, x}, gradient_of_filters(options));
  queue(ops::Conv2dBackward{.dw = dw.value(), .dz = dz.value(), .x = x.value(), .options = options, .math = w.math()},
        dw.stream());
  return dw;
}

}  // namespace

Var conv2d(const Var& given, const Var& w, const Var& b, const Conv2dOptions& options, Activation f, Where where) {
  const detail::CallSite site(where);
  const Var x = as_weights("conv2d", given, w);
  const auto gradient = [options](const Var&, const Var& dz, const std::vector<Var>& in) {
    const auto queue_of = [&](const Tensor& dx, const Tensor& dw, const Tensor& db) {
      queue(ops::Conv2dBackward{.dx = dx,
                                .dw = dw,
                                .db = db,
                                .dz = dz.value(),
                                .x = dw ? in[0].value() : Tensor(),
                                .w = dx ? in[1].value() : Tensor(),
                                .options = options,
                                .math = in[1].math()},
            dz.stream());
    };
    return WeightedGradients{queue_of, gradient_of_images(options), gradient_of_filters(options)}(dz, in);
  };
  Var y = Var::computed(w.dtype(), conv2d_shape(x.shape(), w.shape(), options), {x, w, b}, gradient);
  queue(ops::Conv2d{y.value(), x.value(), w.value(), b.value(), options, w.math()}, y.stream());
  return activation(y, f);
}

Var conv2d_transpose(const Var& x, const Var& w, const Var& b, const Conv2dOptions& options,
                     std::array<std::int64_t, 2> more, Activation f, Where where) {
  const detail::CallSite site(where);
  const Var y = images_of(x, w, conv2d_transpose_shape(x.shape(), w.shape(), options, more), options);
  if (b.value() && b.shape() != Shape{y.shape()[3]}) {
    throw_error(ErrorCode::shape_mismatch, "conv2d_transpose: b is {}, expected shape ({},)", to_string(b.value()),
                y.shape()[3]);
  }
  return activation(b.is_empty() ? y : cast(y + b, y.dtype()), f);
}

Var conv1d(const Var& x, const Var& w, const Var& b, const Conv1dOptions& options, Activation f, Where where) {
  const detail::CallSite site(where);
  if (x.shape().rank() != 3 || w.shape().rank() != 3) {
    throw_error(ErrorCode::shape_mismatch, "conv1d: x is {}, w is {}; expected (N, L, C) and (O, K, C)",
                to_string(x.value()), to_string(w.value()));
  }
  const auto as_image = [](const Var& a) { return a.reshape({a.shape()[0], 1, a.shape()[1], a.shape()[2]}); };
  const Conv2dOptions of_rows{.stride = {1, options.stride},
                              .pad_before = {0, options.pad_before},
                              .pad_after = {0, options.pad_after},
                              .dilation = {1, options.dilation},
                              .groups = options.groups};
  const Var y = conv2d(as_image(x), as_image(w), b, of_rows, f);
  return y.reshape({y.shape()[0], y.shape()[2], y.shape()[3]});
}

}  // namespace giro::nn
