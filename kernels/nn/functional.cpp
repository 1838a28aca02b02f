#include <giro/kernels/nn/functional.h>

#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>

#include "kernels/elementwise.h"
#include "kernels/nn/weights.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {

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

}  // namespace giro::nn
