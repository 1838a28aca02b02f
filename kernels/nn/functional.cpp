#include <giro/kernels/nn/functional.h>

#include <fmt/format.h>

#include <giro/kernels/accuracy.h>
#include <giro/kernels/dense.h>
#include <giro/kernels/elementwise.h>
#include <giro/kernels/reduce.h>
#include <giro/kernels/softmax_cross_entropy.h>
#include <giro/runtime/error.h>

#include "kernels/internal/checks.h"
#include "runtime/internal/call_site.h"

namespace giro::nn {
namespace {

// The gradient of what a kernel of its own has computed in a backward pass.
Gradient only_once(const char* op) {
  return [op](const Var&, const Var&, const std::vector<Var>&) -> Gradients {
    throw Error(ErrorCode::unsupported, fmt::format("{}: its gradient cannot be differentiated again", op));
  };
}

// The gradient of the loss by `input`, contents undefined, of `dtype`.
Var gradient_like(const char* op, const Var& input, DType dtype, const std::vector<Var>& from) {
  return Var::computed(dtype, input.shape(), from, only_once(op));
}

// The gradient before an activation that an op has fused, given the op's output y and dy.
Var before_activation(const char* op, const Var& dy, const Var& y, Activation f) {
  if (f == Activation::none) return dy;
  Var dz = gradient_like(op, y, y.dtype(), {dy, y});
  giro::activation_backward(dz.value(), dy.value(), y.value(), f, dz.stream());
  return dz;
}

// The gradients of (x, w, b) by an op for those of the weight and its bias, as far as they are wanted, and another for
// that of the input: they do not wait for each other.
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

// What a model in 16 bits gives, for what computes in f32 beside `other`, whose stream it may run on.
Var in_f32(const Var& x, const Var& other = {}) {
  if (!is_16_bit(x.dtype())) return x;
  return cast(other.has_stream() ? x.on(other.stream()) : x, DType::f32);
}

// Whether one is to become f32 because the other is.
bool differ_in_width(const Var& a, const Var& b) {
  return (is_16_bit(a.dtype()) && b.dtype() == DType::f32) || (a.dtype() == DType::f32 && is_16_bit(b.dtype()));
}

// What layers compute on; the bytes of images are not.
void has_floats(const char* op, const Var& x) {
  if (is_floating(x.dtype())) return;
  throw Error(ErrorCode::dtype_mismatch,
              fmt::format("{}: x is {}, expected a floating dtype: nn::scale(1 / 255.f) before it makes one of bytes",
                          op, to_string(x.value())));
}

// x as the layer `op` with such weights wants it.
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
  checks::is_floating("cast", {"x", Tensor(nullptr, dtype, {}, {})});
  Var y = Var::computed(dtype, x.shape(), {x}, [](const Var&, const Var& dy, const std::vector<Var>& in) {
    return cast(dy, in[0].grad_dtype());
  });
  giro::cast(y.value(), x.value(), y.stream());
  return y;
}

Var add(const Var& a, const Var& b, Where where) {
  const detail::CallSite site(where);
  if (differ_in_width(a, b)) return add(in_f32(a, b), in_f32(b, a));
  Var y = Var::computed(a.dtype(), a.shape(), {a, b},
                        [](const Var&, const Var& dy, const std::vector<Var>&) { return Gradients{dy, dy}; });
  giro::add(y.value(), a.value(), b.value(), y.stream());
  return y;
}

Var add(const Var& x, double constant, Where where) {
  const detail::CallSite site(where);
  const Var constants = Var::computed(x.dtype(), x.shape(), {x}, nullptr);
  giro::fill(constants.value(), constant, constants.stream());
  return add(x, constants);
}

Var subtract(const Var& a, const Var& b, Where where) {
  const detail::CallSite site(where);
  if (differ_in_width(a, b)) return subtract(in_f32(a, b), in_f32(b, a));
  checks::same_dtype("subtract", {"a", a.value()}, {"b", b.value()});
  checks::same_shape("subtract", {"a", a.value()}, {"b", b.value()});
  return add(a, scale(a.has_stream() ? b.on(a.stream()) : b, -1.0));
}

Var multiply(const Var& a, const Var& b, Where where) {
  const detail::CallSite site(where);
  if (differ_in_width(a, b)) return multiply(in_f32(a, b), in_f32(b, a));
  Var y = Var::computed(a.dtype(), a.shape(), {a, b}, [](const Var&, const Var& dy, const std::vector<Var>& in) {
    return Gradients{multiply(dy, in[1]), multiply(dy, in[0])};
  });
  giro::multiply(y.value(), a.value(), b.value(), y.stream());
  return y;
}

Var square(const Var& x, Where where) {
  const detail::CallSite site(where);
  Var y = Var::computed(x.dtype(), x.shape(), {x}, [](const Var&, const Var& dy, const std::vector<Var>& in) {
    return scale(multiply(dy, in[0]), 2.0);
  });
  giro::multiply(y.value(), x.value(), x.value(), y.stream());
  return y;
}

Var scale(const Var& x, double factor, Where where) {
  const detail::CallSite site(where);
  const DType dtype = is_16_bit(x.dtype()) ? x.dtype() : DType::f32;
  Var y = Var::computed(dtype, x.shape(), {x}, [factor](const Var&, const Var& dy, const std::vector<Var>&) {
    return scale(dy, factor);
  });
  giro::scale(y.value(), x.value(), factor, y.stream());
  return y;
}

Var activation(const Var& x, Activation f, Where where) {
  const detail::CallSite site(where);
  if (f == Activation::none) return x;
  has_floats("activation", x);
  Var y = Var::computed(x.dtype(), x.shape(), {x}, [f](const Var& out, const Var& dy, const std::vector<Var>& in) {
    const Var& of = needs_input(f) ? in[0] : out;
    const Var dx = gradient_like("activation", in[0], in[0].dtype(), {dy, of});
    giro::activation_backward(dx.value(), dy.value(), of.value(), f, dx.stream());
    return dx;
  });
  giro::activation(y.value(), x.value(), f, y.stream());
  return y;
}

Var relu(const Var& x, Where where) { return activation(x, Activation::relu, where); }
Var gelu(const Var& x, Where where) { return activation(x, Activation::gelu, where); }
Var tanh(const Var& x, Where where) { return activation(x, Activation::tanh, where); }
Var sigmoid(const Var& x, Where where) { return activation(x, Activation::sigmoid, where); }

Var flatten(const Var& x, Where where) {
  const detail::CallSite site(where);
  if (x.shape().rank() < 1) throw Error(ErrorCode::shape_mismatch, "flatten: x is a scalar, expected a batch axis");
  const Shape flat{x.shape()[0], x.shape().drop_front().count()};
  return x.reshape(flat);
}

Var dense(const Var& given, const Var& w, const Var& b, Activation f, Where where) {
  const detail::CallSite site(where);
  if (needs_input(f)) return activation(dense(given, w, b), f);
  const Var x = as_weights("dense", given, w);
  if (x.shape().rank() != 2 || w.shape().rank() != 2) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("dense: x is {}, w is {}; expected (B, I) and (I, O)",
                                                       to_string(x.value()), to_string(w.value())));
  }
  const auto gradient = [f](const Var& out, const Var& dy, const std::vector<Var>& in) {
    const Var dz = before_activation("dense", dy, out, f);
    return weighted_gradients("dense", dz, in, [&](const Tensor& dx, const Tensor& dw, const Tensor& db) {
      giro::dense_backward(dx, dw, db, dz.value(), in[0].value(), in[1].value(), in[1].math(), dz.stream());
    });
  };
  Var y = Var::computed(w.dtype(), {x.shape()[0], w.shape()[1]}, {x, w, b}, gradient);
  giro::dense(y.value(), x.value(), w.value(), b.value(), f, w.math(), y.stream());
  return y;
}

Var conv2d(const Var& given, const Var& w, const Var& b, const Conv2dOptions& options, Activation f, Where where) {
  const detail::CallSite site(where);
  if (f != Activation::none && f != Activation::relu) return activation(conv2d(given, w, b, options), f);
  const Var x = as_weights("conv2d", given, w);
  const auto gradient = [f, options](const Var& out, const Var& dy, const std::vector<Var>& in) {
    const Var dz = before_activation("conv2d", dy, out, f);
    return weighted_gradients("conv2d", dz, in, [&](const Tensor& dx, const Tensor& dw, const Tensor& db) {
      giro::conv2d_backward(dx, dw, db, dz.value(), in[0].value(), in[1].value(), options, in[1].math(), dz.stream());
    });
  };
  Var y = Var::computed(w.dtype(), conv2d_shape(x.shape(), w.shape(), options), {x, w, b}, gradient);
  giro::conv2d(y.value(), x.value(), w.value(), b.value(), f, options, w.math(), y.stream());
  return y;
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

namespace {

// A scalar, times `factor`, for each element of a shape.
Var broadcast(const Var& scalar, const Shape& shape, double factor) {
  Var y = Var::computed(DType::f32, shape, {scalar}, [factor](const Var&, const Var& dy, const std::vector<Var>&) {
    return scale(sum(dy), factor);
  });
  giro::broadcast(y.value(), scalar.value(), factor, y.stream());
  return y;
}

}  // namespace

Var sum(const Var& given, Where where) {
  const detail::CallSite site(where);
  const Var x = in_f32(given);
  Var y = Var::computed(DType::f32, {}, {x}, [](const Var&, const Var& dy, const std::vector<Var>& in) {
    return broadcast(dy, in[0].shape(), 1.0);
  });
  giro::sum(y.value(), x.value(), y.stream());
  return y;
}

Var mean(const Var& given, Where where) {
  const detail::CallSite site(where);
  const Var x = in_f32(given);
  Var y = Var::computed(DType::f32, {}, {x}, [](const Var&, const Var& dy, const std::vector<Var>& in) {
    return broadcast(dy, in[0].shape(), 1.0 / static_cast<double>(in[0].shape().count()));
  });
  giro::mean(y.value(), x.value(), y.stream());
  return y;
}

Var mean(const std::vector<Var>& scalars, Where where) {
  const detail::CallSite site(where);
  if (scalars.empty()) throw Error(ErrorCode::invalid_argument, "mean: expected at least one value, found none");
  Var sum = scalars.front();
  for (std::size_t i = 1; i < scalars.size(); ++i) sum = add(sum, scalars[i]);
  return scale(sum, 1.0 / static_cast<double>(scalars.size()));
}

Var softmax_cross_entropy(const Var& given, const Var& labels, Where where) {
  const detail::CallSite site(where);
  const Var logits = in_f32(given, labels);
  if (logits.shape().rank() != 2) {
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("softmax_cross_entropy: logits is {}, expected (R, C)", to_string(logits.value())));
  }
  // The forward pass leaves the gradient of each row's loss; the backward pass only weighs the rows.
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
