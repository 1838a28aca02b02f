#include <giro/kernels/nn/elementwise.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/expr/build.h"
#include "kernels/nn/apply.h"
#include "kernels/nn/arguments.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {

using expr::Layout;

Var clamp(const Operand& a, const Operand& lowest, const Operand& highest) {
  const detail::CallSite site(a.where);
  return minimum(maximum(a, lowest), highest);
}

Var broadcast_to(const Operand& x, const Shape& shape) {
  const ValueCall call("broadcast_to", x);
  const Shape& from = x.var.shape();
  expect_broadcasts("broadcast_to", from, shape);
  if (from == shape) return x.var;
  return view("broadcast_to", x.var, shape, expr::broadcast_layout(from, shape),
              [](const Var&, const Var& dy, const std::vector<Var>& in) { return sum_to(dy, in.front().shape()); });
}

Var transpose(const Operand& x, const std::vector<int>& axes) {
  const ValueCall call("transpose", x);
  const Shape& from = x.var.shape();
  std::vector<int> order = axes;
  if (axes.empty()) {
    order.resize(from.rank());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  const std::vector<std::size_t> places = checked_axes("transpose", from, order);
  if (places.size() != from.rank()) {
    throw_error(ErrorCode::invalid_argument, "transpose: {} axes of {}, expected all {}", places.size(),
                to_string(from), from.rank());
  }
  const Layout own = expr::broadcast_layout(from, from);
  Layout layout;
  std::vector<std::int64_t> sizes;
  std::vector<int> inverse(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    layout.strides[i] = own.strides[places[i]];
    sizes.push_back(from.begin()[places[i]]);
    inverse[places[i]] = static_cast<int>(i);
  }
  return view("transpose", x.var, Shape(sizes), layout, [inverse](const Var&, const Var& dy, const std::vector<Var>&) {
    return inverse.empty() ? dy : transpose(dy, inverse);
  });
}

Var flip(const Operand& x, const std::vector<int>& axes) {
  const ValueCall call("flip", x);
  const Shape& shape = x.var.shape();
  Layout layout = expr::broadcast_layout(shape, shape);
  for (const std::size_t axis : checked_axes("flip", shape, axes)) {
    layout.offset += layout.strides[axis] * (shape.begin()[axis] - 1);
    layout.strides[axis] = -layout.strides[axis];
  }
  return view("flip", x.var, shape, layout,
              [axes](const Var&, const Var& dy, const std::vector<Var>&) { return flip(dy, axes); });
}

}  // namespace giro::nn
