#include <giro/kernels/nn/functional.h>

#include <fmt/format.h>

#include <giro/kernels/accuracy.h>
#include <giro/kernels/dense.h>
#include <giro/kernels/elementwise.h>
#include <giro/kernels/softmax_cross_entropy.h>
#include <giro/runtime/error.h>

#include "kernels/internal/checks.h"
#include "kernels/internal/gradient_like.h"
#include "runtime/internal/call_site.h"

namespace giro::nn {
namespace {

// The gradients of (x, w, b), as far as they are wanted. One op computes the gradients of the weight and its bias,
// another the gradient of the input, so they need not wait for each other.
Gradients weighted_gradients(const char* op, const Var& dz, const std::vector<Var>& in,
                             const std::function<void(const Tensor& dx, const Tensor& dw, const Tensor& db)>& queue) {
  std::vector<Var> terms(3);
  for (std::size_t i : {1, 2}) {
    if (in[i].requires_grad()) terms[i] = gradient_like(op, in[i], in[i].grad_dtype(), {dz, in[0]});
  }
  if (in[1].requires_grad() || in[2].requires_grad()) queue({}, terms[1].value(), terms[2].value());
  if (in[0].requires_grad()) {
    terms[0] = gradient_like(op, in[0], in[0].dtype(), {dz, in[1]});
    queue(terms[0].value(), {}, {});
  }
  return terms;
}

// Converts a 16-bit x for ops that compute in f32. If x has no stream, uses that of `other`.
Var in_f32(const Var& x, const Var& other = {}) {
  if (!is_16_bit(x.dtype())) return x;
  return cast(other.has_stream() ? x.on(other.stream()) : x, DType::f32);
}

// Layers compute on floats, not on the bytes of images.
void has_floats(const char* op, const Var& x) {
  if (is_floating(x.dtype())) return;
  throw Error(ErrorCode::dtype_mismatch,
              fmt::format("{}: x is {}, expected a floating dtype: nn::scale(1 / 255.f) before it makes one of bytes",
                          op, to_string(x.value())));
}

// x in the dtype of w, for the layer `op`.
Var as_weights(const char* op, const Var& x, const Var& w) {
  has_floats(op, x);
  const auto fits = [](DType dtype) { return dtype == DType::f32 || is_16_bit(dtype); };
  if (x.dtype() == w.dtype() || !fits(x.dtype()) || !fits(w.dtype())) return x;
  return cast(w.has_stream() ? x.on(w.stream()) : x, w.dtype());
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
  giro::cast(y.value(), x.value(), y.stream());
  return y;
}

Var scale(const Var& x, double factor, Where where) {
  const detail::CallSite site(where);
  const DType dtype = is_16_bit(x.dtype()) ? x.dtype() : DType::f32;
  Var y = Var::computed(dtype, x.shape(), {x},
                        [factor](const Var&, const Var& dy, const std::vector<Var>&) { return scale(dy, factor); });
  giro::scale(y.value(), x.value(), factor, y.stream());
  return y;
}

Var activation(const Var& x, Activation f, Where where) {
  const detail::CallSite site(where);
  has_floats("activation", x);
  switch (f) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::tanh:
      return tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
  }
  return x;
}

Var flatten(const Var& x, Where where) {
  const detail::CallSite site(where);
  if (x.shape().rank() < 1) throw Error(ErrorCode::shape_mismatch, "flatten: x is a scalar, expected a batch axis");
  const Shape flat{x.shape()[0], x.shape().drop_front().count()};
  return x.reshape(flat);
}

Var dense(const Var& given, const Var& w, const Var& b, Activation f, Where where) {
  const detail::CallSite site(where);
  const Var x = as_weights("dense", given, w);
  if (x.shape().rank() != 2 || w.shape().rank() != 2) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("dense: x is {}, w is {}; expected (B, I) and (I, O)",
                                                       to_string(x.value()), to_string(w.value())));
  }
  const auto gradient = [](const Var&, const Var& dz, const std::vector<Var>& in) {
    return weighted_gradients("dense", dz, in, [&](const Tensor& dx, const Tensor& dw, const Tensor& db) {
      giro::dense_backward(dx, dw, db, dz.value(), in[0].value(), in[1].value(), in[1].math(), dz.stream());
    });
  };
  Var y = Var::computed(w.dtype(), {x.shape()[0], w.shape()[1]}, {x, w, b}, gradient);
  giro::dense(y.value(), x.value(), w.value(), b.value(), w.math(), y.stream());
  return activation(y, f);
}

Var conv2d(const Var& given, const Var& w, const Var& b, const Conv2dOptions& options, Activation f, Where where) {
  const detail::CallSite site(where);
  const Var x = as_weights("conv2d", given, w);
  const auto gradient = [options](const Var&, const Var& dz, const std::vector<Var>& in) {
    return weighted_gradients("conv2d", dz, in, [&](const Tensor& dx, const Tensor& dw, const Tensor& db) {
      giro::conv2d_backward(dx, dw, db, dz.value(), in[0].value(), in[1].value(), options, in[1].math(), dz.stream());
    });
  };
  Var y = Var::computed(w.dtype(), conv2d_shape(x.shape(), w.shape(), options), {x, w, b}, gradient);
  giro::conv2d(y.value(), x.value(), w.value(), b.value(), options, w.math(), y.stream());
  return activation(y, f);
}

Var avg_pool(const Var& x, const PoolOptions& options, Where where) {
  const detail::CallSite site(where);
  has_floats("avg_pool", x);
  const auto gradient = [options](const Var&, const Var& dy, const std::vector<Var>& in) {
    const Var dx = gradient_like("avg_pool", in[0], in[0].dtype(), {dy});
    giro::avg_pool_backward(dx.value(), dy.value(), options, dx.stream());
    return dx;
  };
  Var y = Var::computed(x.dtype(), pool_shape(x.shape(), options), {x}, gradient);
  giro::avg_pool(y.value(), x.value(), options, y.stream());
  return y;
}

Var max_pool(const Var& x, const PoolOptions& options, Where where) {
  const detail::CallSite site(where);
  has_floats("max_pool", x);
  const auto gradient = [options](const Var& out, const Var& dy, const std::vector<Var>& in) {
    const Var dx = gradient_like("max_pool", in[0], in[0].dtype(), {dy, in[0]});
    giro::max_pool_backward(dx.value(), dy.value(), in[0].value(), out.value(), options, dx.stream());
    return dx;
  };
  Var y = Var::computed(x.dtype(), pool_shape(x.shape(), options), {x}, gradient);
  giro::max_pool(y.value(), x.value(), options, y.stream());
  return y;
}

Var softmax_cross_entropy(const Var& given, const Var& labels, Where where) {
  const detail::CallSite site(where);
  const Var logits = in_f32(given, labels);
  if (logits.shape().rank() != 2) {
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("softmax_cross_entropy: logits is {}, expected (R, C)", to_string(logits.value())));
  }
  // The forward pass computes the gradient of each row's loss; the backward pass only scales the rows.
  Var dlogits;
  if (logits.requires_grad()) dlogits = Var::computed(DType::f32, logits.shape(), {stop_gradient(logits)}, nullptr);
  const auto gradient = [dlogits](const Var&, const Var& dy, const std::vector<Var>& in) {
    const Var terms = gradient_like("softmax_cross_entropy", in[0], DType::f32, {dy, in[0]});
    giro::scale_rows(terms.value(), dlogits.value(), dy.value(), terms.stream());
    return Gradients{terms, Var()};
  };
  Var losses = Var::computed(DType::f32, {logits.shape()[0]}, {logits, labels}, gradient);
  giro::softmax_cross_entropy(losses.value(), dlogits.value(), logits.value(), labels.value(), losses.stream());
  return losses;
}

Var accuracy(const Operand& given, const Var& labels) {
  const detail::CallSite site(given.where);
  const Var logits = in_f32(stop_gradient(given.var));
  Var out = Var::computed(DType::f32, {}, {logits, labels}, nullptr);
  giro::accuracy(out.value(), logits.value(), labels.value(), out.stream());
  return out;
}

}  // namespace giro::nn
