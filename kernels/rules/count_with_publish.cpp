#include "kernels/ops.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/patterns.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// A step's counters are incremented by the op that publishes its row of logs.
bool count_with_publish(OpList& ops, std::size_t i) {
  const std::optional<Increment> increment = increment_of(ops, i);
  if (!increment) return false;
  for (std::size_t k = i + 1; k < ops.size(); ++k) {
    const auto* const publish = detail::op_of<ops::Publish>(ops[k]);
    if (publish == nullptr || !publish->ends_row()) continue;
    if (ops.replaces(increment->after, publish->row()) || !ops.can_run_late(i, k)) return false;
    ops::Publish counting = *publish;
    counting.counters.push_back({increment->after, increment->amount});
    ops.tie(increment->after, increment->before);
    ops.replace(k, std::move(counting), {i});
    return true;
  }
  return false;
}

}  // namespace giro::rules
