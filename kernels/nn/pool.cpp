#include <vector>

#include <giro/kernels/nn/functional.h>

#include "kernels/nn/gradients.h"
#include "kernels/nn/weights.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"

namespace giro::nn {

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

}  // namespace giro::nn
