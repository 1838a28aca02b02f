#include "runtime/program/memory_plan.h"

#include <algorithm>
#include <map>

namespace giro::detail {

std::size_t plan_memory(std::vector<PlannedBlock>& blocks) {
  std::vector<PlannedBlock*> order(blocks.size());
  std::transform(blocks.begin(), blocks.end(), order.begin(), [](PlannedBlock& block) { return &block; });
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  const auto by_offset = [](const PlannedBlock* a, const PlannedBlock* b) { return a->offset < b->offset; };
  std::vector<PlannedBlock*> placed;  // by offset
  std::size_t total = 0;
  for (PlannedBlock* block : order) {
    std::size_t offset = 0;
    for (const PlannedBlock* other : placed) {
      if (other->last < block->first || block->last < other->first) continue;
      if (other->offset >= offset + block->bytes) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    block->offset = offset;
    total = std::max(total, offset + block->bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), block, by_offset), block);
  }
  return total;
}

std::size_t min_memory(const std::vector<PlannedBlock>& blocks) {
  std::map<std::size_t, std::ptrdiff_t> change;  // by op
  for (const PlannedBlock& block : blocks) {
    change[block.first] += static_cast<std::ptrdiff_t>(block.bytes);
    change[block.last + 1] -= static_cast<std::ptrdiff_t>(block.bytes);
  }
  std::ptrdiff_t now = 0, most = 0;
  for (const auto& [op, difference] : change) most = std::max(most, now += difference);
  return static_cast<std::size_t>(most);
}

}  // namespace giro::detail
