#include "kernels/internal/prepare.h"

#include <deque>
#include <utility>

#include "kernels/cuda/as_expressions.h"
#include "kernels/cuda/expression.h"
#include "kernels/internal/publish_op.h"
#include "kernels/pointwise/expression_op.h"
#include "runtime/program/op.h"

namespace giro::cuda {
namespace {

template <class Op>
bool is_expression(const Op&) {
  return true;
}
using giro::is_expression;  // for narrow layers
bool is_expression(const ops::AvgPoolBackward& op) { return pool_windows_tile(op.dx.shape(), op.options); }
bool is_expression(const ops::MaxPoolBackward& op) { return pool_windows_tile(op.x.shape(), op.options); }

template <class Op>
bool add(const detail::HeldOp& held, std::deque<pointwise::Expression>& made) {
  const Op* const op = detail::op_of<Op>(held);
  if (op == nullptr || !is_expression(*op)) return false;
  made.push_back(as_expression(*op));
  return true;
}

}  // namespace

void prepare(const std::vector<detail::HeldOp>& ops, const Stream& stream) {
  std::deque<pointwise::Expression> made;
  std::vector<std::pair<const pointwise::Expression*, const ops::Publish*>> with_tails;
  for (const detail::HeldOp& op : ops) {
    if (const auto* const expression = detail::op_of<pointwise::Expression>(op)) {
      with_tails.emplace_back(expression, nullptr);
    } else if (const auto* const both = detail::op_of<ops::RunAndPublish>(op)) {
      with_tails.emplace_back(&both->expression, &both->row);
    } else if (add<ops::Dense>(op, made) || add<ops::DenseBackward>(op, made) || add<ops::AvgPool>(op, made) ||
               add<ops::AvgPoolBackward>(op, made) || add<ops::MaxPool>(op, made) ||
               add<ops::MaxPoolBackward>(op, made)) {
      with_tails.emplace_back(&made.back(), nullptr);
    }
  }
  prepare(with_tails, stream);
}

}  // namespace giro::cuda
