#include <algorithm>
#include <string>
#include <utility>

#include "kernels/internal/rewrite/patterns.h"
#include "kernels/internal/rewrite/rules.h"
#include "kernels/pointwise/build.h"
#include "kernels/pointwise/fusion.h"

namespace giro::rewrite {
namespace {

// The first op after `i` that reads what it writes, or the number of ops.
std::size_t first_reader(const OpList& ops, std::size_t i) {
  std::size_t k = i + 1;
  while (k < ops.size() && !detail::any_overlap(ops[i].node.writes, ops[k].node.reads)) ++k;
  return k;
}

std::string joined_name(const std::string& a, const std::string& b) {
  constexpr std::size_t kLongest = 80;
  if (a.ends_with("...") || a.size() + 1 + b.size() > kLongest) return a.ends_with("...") ? a : a + "+...";
  return a + "+" + b;
}

}  // namespace

// An expression is computed with the first that reads it, and what nothing else reads is not stored at all.
bool splice(OpList& ops, std::size_t i) {
  const pointwise::Expression* const producer = expression_of(ops[i]);
  if (producer == nullptr) return false;
  const std::size_t j = first_reader(ops, i);
  const pointwise::Expression* const consumer = j < ops.size() ? expression_of(ops[j]) : nullptr;
  if (consumer == nullptr) return false;
  const bool late = ops.can_run_late(i, j);
  if (!late && !ops.can_run_early(j, i)) return false;
  std::optional<pointwise::Fused> fused = pointwise::fuse(*producer, *consumer);
  if (!fused) return false;
  bool is_stored = false;
  for (const pointwise::Expression::Write& write : producer->writes) {
    if (ops.only_reader(i, write.to.memory) == j) {
      fused->expression = pointwise::without_write(fused->expression, write.to.memory);
    } else {
      is_stored = true;
    }
  }
  if (fused->repeats_producer && is_stored) return false;
  pointwise::queue(joined_name(ops[i].node.op, ops[j].node.op), std::move(fused->expression), ops[i].stream);
  late ? ops.replace(j, {i}) : ops.replace(i, {j});
  return true;
}

}  // namespace giro::rewrite
