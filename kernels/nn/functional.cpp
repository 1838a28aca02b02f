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

// The gradient before an activation that an op has fused, given the op's output y and dy; in dy's place, which nobody
// reads again.
const Tensor& before_activation(const Tensor& dy, const Tensor& y, Activation f, const Stream& stream) {
  if (f != Activation::none) giro::activation_backward(dy, dy, y, f, stream);
  return dy;
}

// An op for the gradients of a weight and its bias, as far as they are wanted, apart from that for the input's: they do
// not wait for each other.
void with_grads_of(const Var& w, const Var& b, const std::function<void(const Tensor&, const Tensor&)>& write) {
  if (!w.requires_grad()) return b.accumulate_unrounded([&](const Tensor& db) { write(Tensor(), db); });
  w.accumulate_unrounded([&](const Tensor& dw) {
    if (!b.requires_grad()) return write(dw, Tensor());
    b.accumulate_unrounded([&](const Tensor& db) { write(dw, db); });
  });
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
  Var y = Var::computed(dtype, x.shape(), {x}, [x](const Tensor&, const Tensor& dy, const Stream& stream) {
    x.accumulate_unrounded(
        [&](const Tensor& dx) { dx.dtype() == dy.dtype() ? copy(dx, dy, stream) : giro::cast(dx, dy, stream); });
  });
  giro::cast(y.value(), x.value(), y.stream());
  return y;
}

Var add(const Var& a, const Var& b, Where where) {
  const detail::CallSite site(where);
  if (differ_in_width(a, b)) return add(in_f32(a, b), in_f32(b, a));
  Var y = Var::computed(a.dtype(), a.shape(), {a, b}, [a, b](const Tensor&, const Tensor& dy, const Stream& stream) {
    a.accumulate([&](const Tensor& da) { copy(da, dy, stream); });
    b.accumulate([&](const Tensor& db) { copy(db, dy, stream); });
  });
  giro::add(y.value(), a.value(), b.value(), y.stream());
  return y;
}

Var add(const Var& x, double constant, Where where) {
  const detail::CallSite site(where);
  Var y = Var::computed(x.dtype(), x.shape(), {x}, [x](const Tensor&, const Tensor& dy, const Stream& stream) {
    x.accumulate([&](const Tensor& dx) { copy(dx, dy, stream); });
  });
  giro::fill(y.value(), constant, y.stream());
  giro::add(y.value(), x.value(), y.value(), y.stream());
  return y;
}

Var subtract(const Var& a, const Var& b, Where where) {
  const detail::CallSite site(where);
  if (differ_in_width(a, b)) return subtract(in_f32(a, b), in_f32(b, a));
  checks::same_dtype("subtract", {"a", a.value()}, {"b", b.value()});
  checks::same_shape("subtract", {"a", a.value()}, {"b", b.value()});
  Var y = Var::computed(a.dtype(), a.shape(), {a, b}, [a, b](const Tensor&, const Tensor& dy, const Stream& stream) {
    a.accumulate([&](const Tensor& da) { copy(da, dy, stream); });
    b.accumulate([&](const Tensor& db) { giro::scale(db, dy, -1.0, stream); });
  });
  giro::scale(y.value(), b.value(), -1.0, y.stream());
  giro::add(y.value(), a.value(), y.value(), y.stream());
  return y;
}

Var multiply(const Var& a, const Var& b, Where where) {
  const detail::CallSite site(where);
  if (differ_in_width(a, b)) return multiply(in_f32(a, b), in_f32(b, a));
  Var y = Var::computed(a.dtype(), a.shape(), {a, b}, [a, b](const Tensor&, const Tensor& dy, const Stream& stream) {
    a.accumulate([&](const Tensor& da) { giro::multiply(da, dy, b.value(), stream); });
    b.accumulate([&](const Tensor& db) { giro::multiply(db, dy, a.value(), stream); });
  });
  giro::multiply(y.value(), a.value(), b.value(), y.stream());
  return y;
}

Var square(const Var& x, Where where) {
  const detail::CallSite site(where);
  Var y = Var::computed(x.dtype(), x.shape(), {x}, [x](const Tensor&, const Tensor& dy, const Stream& stream) {
    x.accumulate([&](const Tensor& dx) {
      giro::multiply(dx, dy, x.value(), stream);
      giro::scale(dx, dx, 2.0, stream);
    });
  });
  giro::multiply(y.value(), x.value(), x.value(), y.stream());
  return y;
}

Var scale(const Var& x, double factor, Where where) {
  const detail::CallSite site(where);
  const DType dtype = is_16_bit(x.dtype()) ? x.dtype() : DType::f32;
  Var y = Var::computed(dtype, x.shape(), {x}, [x, factor](const Tensor&, const Tensor& dy, const Stream& stream) {
    x.accumulate([&](const Tensor& dx) { giro::scale(dx, dy, factor, stream); });
  });
  giro::scale(y.value(), x.value(), factor, y.stream());
  return y;
}

Var activation(const Var& x, Activation f, Where where) {
  const detail::CallSite site(where);
  if (f == Activation::none) return x;
  has_floats("activation", x);
  Var y = Var::computed(x.dtype(), x.shape(), {x}, [x, f](const Tensor& out, const Tensor& dy, const Stream& stream) {
    x.accumulate(
        [&](const Tensor& dx) { giro::activation_backward(dx, dy, needs_input(f) ? x.value() : out, f, stream); });
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
  Var y = Var::computed(w.dtype(), {x.shape()[0], w.shape()[1]}, {x, w, b},
                        [x, w, b, f](const Tensor& out, const Tensor& dy, const Stream& stream) {
                          const Tensor& dz = before_activation(dy, out, f, stream);
                          with_grads_of(w, b, [&](const Tensor& dw, const Tensor& db) {
                            giro::dense_backward({}, dw, db, dz, x.value(), w.value(), w.math(), stream);
                          });
                          x.accumulate([&](const Tensor& dx) {
                            giro::dense_backward(dx, {}, {}, dz, x.value(), w.value(), w.math(), stream);
                          });
                        });
  giro::dense(y.value(), x.value(), w.value(), b.value(), f, w.math(), y.stream());
  return y;
}

Var conv2d(const Var& given, const Var& w, const Var& b, const Conv2dOptions& options, Activation f, Where where) {
  const detail::CallSite site(where);
  if (f != Activation::none && f != Activation::relu) return activation(conv2d(given, w, b, options), f);
  const Var x = as_weights("conv2d", given, w);
  Var y = Var::computed(w.dtype(), conv2d_shape(x.shape(), w.shape(), options), {x, w, b},
                        [x, w, b, options, f](const Tensor& out, const Tensor& dy, const Stream& stream) {
                          const Tensor& dz = before_activation(dy, out, f, stream);
                          with_grads_of(w, b, [&](const Tensor& dw, const Tensor& db) {
                            giro::conv2d_backward({}, dw, db, dz, x.value(), w.value(), options, w.math(), stream);
                          });
                          x.accumulate([&](const Tensor& dx) {
                            giro::conv2d_backward(dx, {}, {}, dz, x.value(), w.value(), options, w.math(), stream);
                          });
                        });
  giro::conv2d(y.value(), x.value(), w.value(), b.value(), f, options, w.math(), y.stream());
  return y;
}

Var avg_pool(const Var& x, const PoolOptions& options, Where where) {
  const detail::CallSite site(where);
  has_floats("avg_pool", x);
  Var y = Var::computed(x.dtype(), pool_shape(x.shape(), options), {x},
                        [x, options](const Tensor&, const Tensor& dy, const Stream& stream) {
                          x.accumulate([&](const Tensor& dx) { giro::avg_pool_backward(dx, dy, options, stream); });
                        });
  giro::avg_pool(y.value(), x.value(), options, y.stream());
  return y;
}

Var max_pool(const Var& x, const PoolOptions& options, Where where) {
  const detail::CallSite site(where);
  has_floats("max_pool", x);
  Var y = Var::computed(
      x.dtype(), pool_shape(x.shape(), options), {x},
      [x, options](const Tensor& out, const Tensor& dy, const Stream& stream) {
        x.accumulate([&](const Tensor& dx) { giro::max_pool_backward(dx, dy, x.value(), out, options, stream); });
      });
  giro::max_pool(y.value(), x.value(), options, y.stream());
  return y;
}

Var sum(const Var& given, Where where) {
  const detail::CallSite site(where);
  const Var x = in_f32(given);
  Var y = Var::computed(DType::f32, {}, {x}, [x](const Tensor&, const Tensor& dy, const Stream& stream) {
    x.accumulate([&](const Tensor& dx) { giro::broadcast(dx, dy, 1.0, stream); });
  });
  giro::sum(y.value(), x.value(), y.stream());
  return y;
}

Var mean(const Var& given, Where where) {
  const detail::CallSite site(where);
  const Var x = in_f32(given);
  Var y = Var::computed(DType::f32, {}, {x}, [x](const Tensor&, const Tensor& dy, const Stream& stream) {
    const double share = 1.0 / static_cast<double>(x.shape().count());
    x.accumulate([&](const Tensor& dx) { giro::broadcast(dx, dy, share, stream); });
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
  // The forward pass leaves the gradient of each row's loss; going back only weighs the rows.
  const auto gradient = std::make_shared<Buffer>();
  Tensor dlogits;
  if (logits.requires_grad()) {
    *gradient = logits.stream().allocate(logits.value().bytes());
    dlogits = Tensor(gradient->data(), DType::f32, logits.shape(), logits.value().device());
  }
  Var losses =
      Var::computed(DType::f32, {logits.shape()[0]}, {logits, labels},
                    [logits, gradient, dlogits](const Tensor&, const Tensor& dy, const Stream& stream) {
                      logits.accumulate([&](const Tensor& out) { giro::scale_rows(out, dlogits, dy, stream); });
                    });
  giro::softmax_cross_entropy(losses.value(), dlogits, logits.value(), labels.value(), losses.stream());
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
