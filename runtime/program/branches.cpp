#include "runtime/program/branches.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace giro::detail {
namespace {

// The memory needed while each op runs.
class MemoryInTime {
 public:
  MemoryInTime(const Homes& homes, std::vector<PlannedBlock>& blocks)
      : needed_(homes.of_op.size()), of_op_(homes.of_op), blocks_(blocks) {
    for (const PlannedBlock& block : blocks) {
      for (std::size_t i = block.first; i <= block.last; ++i) needed_[i] += block.bytes;
    }
    for (const std::size_t bytes : needed_) most_ = std::max(most_, bytes);
  }

  // The first op after `i` and before `end` during which there is no room for the memory of op `i`; `end` if none.
  std::size_t room_until(std::size_t i, std::size_t end) const {
    for (std::size_t at = i + 1; at < end; ++at) {
      std::size_t more = 0;
      for (const std::size_t block : of_op_[i]) {
        if (blocks_[block].last < at) more += blocks_[block].bytes;
      }
      if (needed_[at] + more > most_) return at;
    }
    return end;
  }

  // Keeps the memory of op `i` until op `end`.
  void keep(std::size_t i, std::size_t end) {
    for (const std::size_t b : of_op_[i]) {
      PlannedBlock& block = blocks_[b];
      for (; block.last + 1 < end; ++block.last) needed_[block.last + 1] += block.bytes;
    }
  }

 private:
  std::vector<std::size_t> needed_;
  std::size_t most_ = 0;
  const std::vector<std::vector<std::size_t>>& of_op_;
  std::vector<PlannedBlock>& blocks_;
};

}  // namespace

bool branches_are_on() {
  const char* const setting = std::getenv("GIRO_BRANCHES");
  return setting == nullptr || std::string_view(setting) != "0";
}

std::vector<Branch> plan_branches(const std::vector<HeldOp>& ops, const Homes& homes,
                                  std::vector<PlannedBlock>& blocks) {
  std::vector<Branch> branches(ops.size());
  MemoryInTime memory(homes, blocks);
  std::size_t joined = ops.size();  // of the next op aside: once that op is done, so is this one
  // Backwards, so that it is known which later ops are aside.
  for (std::size_t i = ops.size(); i-- > 0;) {
    if (ops[i].is_barrier()) continue;
    const auto waits = [&](std::size_t j) { return ops[j].is_barrier() || homes.depends(j, i); };
    std::size_t end = i + 1;
    while (end < joined && (branches[end].on_side_stream || !waits(end))) ++end;
    end = memory.room_until(i, end);
    const auto first = branches.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const auto last = branches.begin() + static_cast<std::ptrdiff_t>(end);
    if (std::all_of(first, last, [](const Branch& branch) { return branch.on_side_stream; })) continue;
    branches[i] = {true, end};
    memory.keep(i, end);
    joined = end;
  }
  return branches;
}

}  // namespace giro::detail
