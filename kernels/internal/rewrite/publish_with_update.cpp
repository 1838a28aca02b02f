#include <giro/kernels/optim/update.h>

#include "kernels/functors/publish.h"
#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {
namespace {

std::vector<Tensor> both(std::vector<Tensor> a, const std::vector<Tensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

// The update that a step ends with publishes its row of logs, too. On a GPU alone, where a kernel of its own costs more
// than the row.
bool publish_with_update(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const auto* const update = GIRO_ARGUMENTS(ops[i], update);
  if (update == nullptr || stream.device().is_cpu()) return false;
  // By name and not as bindings, which clang cannot capture where OpenMP is on.
  const optim::UpdateRule rule = std::get<0>(*update);
  const optim::UpdateTensors tensors = std::get<1>(*update);
  for (std::size_t k = i + 1; k < ops.size(); ++k) {
    const auto* const publish = GIRO_ARGUMENTS(ops[k], publish_columns);
    if (publish == nullptr) continue;
    const RowRing ring = std::get<0>(*publish);
    const Tensor row = std::get<1>(*publish);
    const RowPart part = std::get<2>(*publish);
    if (part.columns != part.row_columns || !ops.can_run_late(i, k)) return false;
    const Program::Node &first = ops[i].node, &second = ops[k].node;
    GIRO_QUEUE(stream, update_and_publish, (rule, tensors, ring, row, part), both(first.writes, second.writes),
               both(first.reads, second.reads), first.flops + second.flops, first.bytes + second.bytes);
    ops.replace(k, {i});
    return true;
  }
  return false;
}

}  // namespace giro::rewrite
