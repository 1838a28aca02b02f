#include <giro/kernels/nn/sort.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/nn/axes.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

// The first `kept` indices of each row.
Var order_along(const Var& x, std::size_t axis, std::int64_t kept, bool descending) {
  if (x.shape().begin()[axis] > std::numeric_limits<std::uint32_t>::max()) {
    throw_error(ErrorCode::shape_mismatch, "argsort: x is {}, expected fewer than 2^32 elements along axis {}",
                to_string(x.value()), axis);
  }
  return along_axis(stop_gradient(x), axis, [&](const Var& rows) {
    Var order = Var::computed(DType::i64, {rows.shape()[0], kept}, {rows}, nullptr);
    queue(ops::ArgSort{order.value(), rows.value(), descending}, order.stream());
    return order;
  });
}

}  // namespace

Var argsort(const Operand& x, int axis) {
  const detail::CallSite site(x.where);
  const std::size_t along = checked_axis("argsort", x, axis);
  return order_along(x.var, along, x.var.shape().begin()[along], false);
}

Var sort(const Operand& x, int axis) {
  const detail::CallSite site(x.where);
  const std::size_t along = checked_axis("sort", x, axis);
  return take_distinct(x.var, order_along(x.var, along, x.var.shape().begin()[along], false), along);
}

TopK top_k(const Operand& x, std::int64_t k) {
  const detail::CallSite site(x.where);
  const std::size_t along = checked_axis("top_k", x, -1);
  const std::int64_t size = x.var.shape().begin()[along];
  if (k < 0 || k > size) {
    throw_error(ErrorCode::invalid_argument, "top_k: k is {}, expected 0 to {}, the size of the last axis of {}", k,
                size, to_string(x.var.shape()));
  }
  const Var indices = order_along(x.var, along, k, true);
  return {take_distinct(x.var, indices, along), indices};
}

}  // namespace giro::nn
