#include "kernels/internal/prepare.h"

#include <utility>

#include "kernels/cuda/expression.h"
#include "kernels/internal/publish_op.h"
#include "kernels/pointwise/expression_op.h"
#include "runtime/program/op.h"

namespace giro::cuda {

void prepare(const std::vector<detail::HeldOp>& ops, const Stream& stream) {
  std::vector<std::pair<const pointwise::Expression*, const ops::Publish*>> with_tails;
  for (const detail::HeldOp& op : ops) {
    if (const auto* const expression = detail::op_of<pointwise::Expression>(op)) {
      with_tails.emplace_back(expression, nullptr);
    } else if (const auto* const both = detail::op_of<ops::RunAndPublish>(op)) {
      with_tails.emplace_back(&both->expression, &both->row);
    }
  }
  prepare(with_tails, stream);
}

}  // namespace giro::cuda
