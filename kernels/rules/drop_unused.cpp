#include <algorithm>

#include "kernels/rules/op_list.h"
#include "kernels/rules/rules.h"

namespace giro::rules {

// Drops ops that only compute values nothing reads, such as a metric that is not logged, and then the ops that only
// these needed.
bool drop_unused(OpList& ops, std::size_t i) {
  if (i > 0) return false;
  for (std::size_t k = ops.size(); k-- > 0;) {
    const auto is_unused = [&](const Tensor& value) { return ops.readers(k, value, 0).has_value(); };
    const std::vector<Tensor>& writes = ops.writes(k);
    if (!writes.empty() && std::all_of(writes.begin(), writes.end(), is_unused)) ops.drop(k);
  }
  return false;
}

}  // namespace giro::rules
