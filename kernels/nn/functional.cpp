#include <giro/kernels/nn/functional.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/losses.h>
#include <giro/kernels/nn/matmul.h>

#include "kernels/elementwise.h"
#include "kernels/nn/arguments.h"
#include "kernels/nn/gradients.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"
#include "runtime/faults.h"
#include "runtime/program/op_signature.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

// Those gradients of (x, w, b) that are required. One op computes the gradients of the weight and its bias, another the
// gradient of the input, so they need not wait for each other: queue_of(dx, dw, db) queues one. of_dx and of_dw are the
// gradients of dx with respect to (dz, w) and of dw with respect to (dz, x).
template <class Queue>
Gradients weighted_gradients(const Var& dz, const std::vector<Var>& in, const Queue& queue_of, const Gradient& of_dx,
                             const Gradient& of_dw) {
  const auto [x, w, b] = std::tie(in[0], in[1], in[2]);
  std::vector<Var> terms(3);
  if (w.requires_grad()) terms[1] = Var::computed(w.grad_dtype(), w.shape(), {dz, x}, of_dw);
  if (b.requires_grad()) {
    const Gradient of_db = [](const Var&, const Var& g, const std::vector<Var>& of) {
      return broadcast_to(g, of[0].shape());
    };
    terms[2] = Var::computed(b.grad_dtype(), b.shape(), {dz}, of_db);
  }
  if (w.requires_grad() || b.requires_grad()) queue_of(Tensor(), terms[1].value(), terms[2].value());
  if (x.requires_grad()) {
    terms[0] = Var::computed(x.dtype(), x.shape(), {dz, w}, of_dx);
    queue_of(terms[0].value(), Tensor(), Tensor());
  }
  return terms;
}

// Layers compute on floats, not on the bytes of images.
void has_floats(const char* op, const Var& x) {
  if (is_floating(x.dtype())) return;
  throw_error(ErrorCode::dtype_mismatch,
              "{}: x is {}, expected a floating dtype; for bytes, put nn::scale(1 / 255.f) before it", op,
              to_string(x.value()));
}

// x converted to the dtype of w, for the layer `op`.
Var as_weights(const char* op, const Var& x, const Var& w) {
  has_floats(op, x);
  const auto fits = [](DType dtype) { return dtype == DType::f32 || is_16_bit(dtype); };
  if (x.dtype() == w.dtype() || !fits(x.dtype()) || !fits(w.dtype())) return x;
  return cast(on_stream_of(x, w), w.dtype());
}

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

// logits (R, C), labels (R,). The forward pass computes the gradient of each row's loss; the backward pass only scales
// the rows.
Var losses_of_rows(const Var& logits, const Var& labels, const Fault& fault) {
  Var dlogits;
  if (logits.requires_grad()) dlogits = Var::computed(DType::f32, logits.shape(), {stop_gradient(logits)}, nullptr);
  const auto gradient = [dlogits](const Var&, const Var& dy, const std::vector<Var>& in) {
    const Var terms = gradient_like("softmax_cross_entropy", in[0], in[0].grad_dtype(), {dy, in[0]});
    ops::write_each("scale_rows", terms.value(), dlogits.shape(), terms.stream(), [&](const auto& read) {
      const expr::Term each = read(dlogits.value());
      return each * read(dy.value(), Shape{dy.shape()[0], 1});
    });
    return Gradients{terms, Var()};
  };
  Var losses = Var::computed(DType::f32, {logits.shape()[0]}, {logits, labels}, gradient);
  losses.set_direction(Direction::lower);
  queue(ops::SoftmaxCrossEntropy{losses.value(), dlogits.value(), logits.value(), labels.value(), fault},
        losses.stream());
  return losses;
}

}  // namespace

Var cast(const Var& x, DType dtype, Where where) {
  const detail::CallSite site(where);
  if (x.dtype() == dtype) return x;
  Gradient gradient = [](const Var&, const Var& dy, const std::vector<Var>& in) {
    return cast(dy, in[0].grad_dtype());
  };
  if (!is_floating(dtype) || !is_floating(x.dtype())) gradient = nullptr;
  Var y = Var::computed(dtype, x.shape(), {x}, std::move(gradient));
  y.set_direction(x.direction());
  ops::cast(y.value(), x.value(), y.stream());
  return y;
}

Var scale(const Var& x, double factor, Where where) {
  const detail::CallSite site(where);
  const DType dtype = is_16_bit(x.dtype()) ? x.dtype() : DType::f32;
  Var y = Var::computed(dtype, x.shape(), {x},
                        [factor](const Var&, const Var& dy, const std::vector<Var>&) { return scale(dy, factor); });
  ops::scale(y.value(), x.value(), factor, y.stream());
  return y;
}

Var activation(const Var& x, Activation f, Where where) {
  const detail::CallSite site(where);
  has_floats("activation", x);
  constexpr Var (*kFunctions[])(const Operand&) = {nullptr, relu, gelu, tanh, sigmoid};  // in the order of Activation
  return f == Activation::none ? x : kFunctions[static_cast<std::size_t>(f)](x);
}

Var flatten(const Var& x, Where where) {
  const detail::CallSite site(where);
  if (x.shape().rank() < 1) throw_shape("flatten: x is a scalar, expected a batch axis");
  return x.reshape({x.shape()[0], x.shape().drop_front().count()});
}

Var dense(const Var& given, const Var& w, const Var& b, Activation f, Where where) {
  const detail::CallSite site(where);
  const Var x = as_weights("dense", given, w);
  if (x.shape().rank() < 1 || w.shape().rank() != 2) {
    throw_shape("dense: x is {}, w is {}; expected (..., I) and (I, O)", to_string(x.value()), to_string(w.value()));
  }
  const std::span leading(x.shape().begin(), x.shape().end() - 1);
  const Shape rows{Shape(leading).count(), x.shape()[-1]};
  const auto gradient = [](const Var&, const Var& dz, const std::vector<Var>& in) {
    const auto queue_of = [&](const Tensor& dx, const Tensor& dw, const Tensor& db) {
      queue(ops::DenseBackward{dx, dw, db, dz.value(), dw ? in[0].value() : Tensor(), dx ? in[1].value() : Tensor(),
                               in[1].math()},
            dz.stream());
    };
    const auto of_dx = [](const Var&, const Var& g, const std::vector<Var>& of) {
      return Gradients{matmul(g, of[1]), matmul(g, of[0], {.transpose_a = true})};
    };
    const auto of_dw = [](const Var&, const Var& g, const std::vector<Var>& of) {
      return Gradients{matmul(of[1], g), matmul(of[0], g, {.transpose_b = true})};
    };
    return weighted_gradients(dz, in, queue_of, of_dx, of_dw);
  };
  std::vector<std::int64_t> sizes(leading.begin(), leading.end());
  sizes.push_back(w.shape()[1]);
  const Var in_rows = x.shape() == rows ? x : x.reshape(rows);
  Var y = Var::computed(w.dtype(), {rows[0], w.shape()[1]}, {in_rows, w, b}, gradient);
  queue(ops::Dense{y.value(), in_rows.value(), w.value(), b.value(), w.math()}, y.stream());
  if (x.shape() != rows) y = y.reshape(Shape(sizes));
  return activation(y, f);
}

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
    return weighted_gradients(dz, in, queue_of, gradient_of_images(options), gradient_of_filters(options));
  };
  Var y = Var::computed(w.dtype(), conv2d_shape(x.shape(), w.shape(), options), {x, w, b}, gradient);
  queue(ops::Conv2d{y.value(), x.value(), w.value(), b.value(), options, w.math()}, y.stream());
  return activation(y, f);
}

Var conv2d_transpose(const Var& x, const Var& w, const Var& b, const Conv2dOptions& options,
                     std::array<std::int64_t, 2> more, Activation f, Where where) {
  const detail::CallSite site(where);
  const Var y = images_of(x, w, conv2d_transpose_shape(x.shape(), w.shape(), options, more), options);
  giro::detail::expect_fit("conv2d_transpose", "y: *(nhwo), b?: *(o)", {&y.value(), &b.value()});
  return activation(b.is_empty() ? y : cast(y + b, y.dtype()), f);
}

Var conv1d(const Var& x, const Var& w, const Var& b, const Conv1dOptions& options, Activation f, Where where) {
  const detail::CallSite site(where);
  giro::detail::expect_fit("conv1d", "x: *(nlc), w: *(okd)", {&x.value(), &w.value()});
  const auto as_image = [](const Var& a) { return a.reshape({a.shape()[0], 1, a.shape()[1], a.shape()[2]}); };
  const Conv2dOptions of_rows{.stride = {1, options.stride},
                              .pad_before = {0, options.pad_before},
                              .pad_after = {0, options.pad_after},
                              .dilation = {1, options.dilation},
                              .groups = options.groups};
  const Var y = conv2d(as_image(x), as_image(w), b, of_rows, f);
  return y.reshape({y.shape()[0], y.shape()[2], y.shape()[3]});
}

Var avg_pool(const Var& x, const PoolOptions& options, Where where) {
  const detail::CallSite site(where);
  has_floats("avg_pool", x);
  const auto gradient = [options](const Var&, const Var& dy, const std::vector<Var>& in) {
    const Var dx = gradient_like("avg_pool", in[0], in[0].dtype(), {dy});
    queue(ops::AvgPoolBackward{.dx = dx.value(), .dy = dy.value(), .options = options}, dx.stream());
    return dx;
  };
  Var y = Var::computed(x.dtype(), pool_shape(x.shape(), options), {x}, gradient);
  queue(ops::AvgPool{y.value(), x.value(), options}, y.stream());
  return y;
}

Var max_pool(const Var& x, const PoolOptions& options, Where where) {
  const detail::CallSite site(where);
  has_floats("max_pool", x);
  const auto gradient = [options](const Var& out, const Var& dy, const std::vector<Var>& in) {
    const Var dx = gradient_like("max_pool", in[0], in[0].dtype(), {dy, in[0]});
    queue(ops::MaxPoolBackward{dx.value(), dy.value(), in[0].value(), out.value(), options}, dx.stream());
    return dx;
  };
  Var y = Var::computed(x.dtype(), pool_shape(x.shape(), options), {x}, gradient);
  queue(ops::MaxPool{y.value(), x.value(), options}, y.stream());
  return y;
}

Var softmax_cross_entropy(const Var& logits, const Var& labels, Where where) {
  const detail::CallSite site(where);
  if (is_floating(labels.dtype())) return softmax_cross_entropy(logits, labels, CrossEntropyOptions{});
  const Shape &of_logits = logits.shape(), &of_labels = labels.shape();
  if (of_logits.rank() != of_labels.rank() + 1 || !std::equal(of_labels.begin(), of_labels.end(), of_logits.begin())) {
    throw_shape("softmax_cross_entropy: logits is {}, labels is {}; expected (..., C) and (...)",
                to_string(logits.value()), to_string(labels.value()));
  }
  const Stream& stream = (logits.has_stream() ? logits : labels).stream();
  giro::detail::expect_fit("softmax_cross_entropy", "logits: s, labels: i", {&logits.value(), &labels.value()});
  const std::int64_t rows = of_labels.count(), classes = of_logits.begin()[of_labels.rank()];
  const Fault fault = giro::detail::Faults::of(stream, "softmax_cross_entropy: label", labels.value(), classes);
  if (of_logits.rank() == 2) return losses_of_rows(logits, labels, fault);
  return losses_of_rows(logits.reshape({rows, classes}), labels.reshape({rows}), fault).reshape(of_labels);
}

}  // namespace giro::nn
