#include "kernels/internal/publish_op.h"
#include "kernels/pointwise/expression.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {
namespace {

std::vector<Tensor> both(std::vector<Tensor> a, const std::vector<Tensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

// The last expression without reductions before the row is published, such as the update, also publishes the row of
// logs. Launching a separate kernel would cost more than the row.
bool publish_with_update(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const publish = detail::op_of<ops::Publish>(ops[i]);
  if (publish == nullptr || static_cast<std::int64_t>(publish->scalars.size()) != publish->ring.columns) return false;
  for (std::size_t k = i; k-- > 0;) {
    const pointwise::Expression* const expression = expression_of(ops[k]);
    if (expression == nullptr || pointwise::reduces(*expression)) continue;
    if (!ops.can_run_late(k, i)) return false;
    const Program::Node &first = ops[k].node, &second = ops[i].node;
    Program::Node node(first.op + "+publish", both(first.writes, second.writes), both(first.reads, second.reads),
                       first.flops + second.flops, first.bytes + second.bytes);
    detail::Recording::current()->hold(
        {std::move(node), stream,
         std::make_shared<detail::CallOf<ops::RunAndPublish>>(ops::RunAndPublish{*expression, *publish})});
    ops.replace(i, {k});
    return true;
  }
  return false;
}

}  // namespace giro::rules
