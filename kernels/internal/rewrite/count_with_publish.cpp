#include <giro/kernels/publish.h>

#include "kernels/internal/publish_part.h"
#include "kernels/internal/rewrite/patterns.h"
#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {

// What a step counts it counts as it publishes its row of logs.
bool count_with_publish(OpList& ops, std::size_t i) {
  const Stream stream = ops[i].stream;
  const std::optional<Increment> increment = increment_of(ops[i]);
  if (!increment) return false;
  for (std::size_t k = i + 1; k < ops.size(); ++k) {
    const auto* const publish = GIRO_ARGUMENTS(ops[k], publish_columns);
    if (publish == nullptr || !std::get<2>(*publish).ends_row()) continue;
    auto [ring, row, part] = *publish;
    if (part.num_counters == RowPart::kMaxCounters || increment->counter.raw() == row.raw() ||
        !ops.can_run_late(i, k)) {
      return false;
    }
    part.add_counter(increment->counter, increment->amount);
    publish_part(ring, row, part, stream);
    ops.replace(k, {i});
    return true;
  }
  return false;
}

}  // namespace giro::rewrite
