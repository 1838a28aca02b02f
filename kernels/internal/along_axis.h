#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <giro/kernels/nn/elementwise.h>

namespace giro::nn {

// Moves the axis last, applies of_rows to rows (R, L) along it, which gives rows (R, K), and moves the axis back.
template <class F>
Var along_axis(const Var& x, std::size_t axis, const F& of_rows) {
  std::vector<int> order(x.shape().rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axis], order.back());
  const bool is_last = axis + 1 == order.size();
  const Var moved = is_last ? x : transpose(x, order);
  std::vector<std::int64_t> sizes(moved.shape().begin(), moved.shape().end());
  const std::int64_t length = sizes.back(), rows = length == 0 ? 0 : x.shape().count() / length;
  const Var result = of_rows(moved.reshape({rows, length}));
  sizes.back() = result.shape()[1];
  const Var whole = result.reshape(Shape(sizes));
  return is_last ? whole : transpose(whole, order);
}

}  // namespace giro::nn
