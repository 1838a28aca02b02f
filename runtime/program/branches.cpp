#include "runtime/program/branches.h"

#include <algorithm>
#include <limits>

namespace giro::detail {
namespace {

// For each op, the ops that it must come after, in order: those that write what it reads, and those that read or write
// what it writes over.
std::vector<std::vector<std::size_t>> order_of(const std::vector<HeldOp>& ops, const Values& values) {
  constexpr std::size_t kNoOp = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> writers(values.count() + 1, kNoOp);
  std::vector<std::vector<std::size_t>> readers(values.count() + 1), after(ops.size());
  std::vector<Id> writes;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto follow = [&](std::size_t earlier) {
      if (earlier != kNoOp && earlier != i) after[i].push_back(earlier);
    };
    writes.clear();
    values.for_each_use(ops[i], [&](const Tensor& tensor, bool is_read) {
      if (!is_read) return writes.push_back(id_of(tensor));
      values.for_each(tensor, [&](Id id) {
        follow(writers[id]);
        if (!values[id].under.empty()) readers[id].push_back(i);
      });
    });
    for (const Id id : writes) {
      writers[id] = i;
      for (const Id earlier : values[id].over) {
        follow(writers[earlier]);
        std::ranges::for_each(readers[earlier], follow);
      }
    }
    std::ranges::sort(after[i]);
  }
  return after;
}

// The memory needed while each op runs.
class MemoryInTime {
 public:
  MemoryInTime(const Homes& homes, std::vector<PlannedBlock>& blocks)
      : needed_(homes.of_op.size()), most_(min_memory(blocks)), of_op_(homes.of_op), blocks_(blocks) {
    for (const PlannedBlock& block : blocks) {
      for (std::size_t i = block.first; i <= block.last; ++i) needed_[i] += block.bytes;
    }
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
  std::size_t most_;
  const std::vector<std::vector<std::size_t>>& of_op_;
  std::vector<PlannedBlock>& blocks_;
};

}  // namespace

std::vector<Branch> plan_branches(const std::vector<HeldOp>& ops, const Values& values, const Homes& homes,
                                  std::vector<PlannedBlock>& blocks) {
  const std::vector<std::vector<std::size_t>> after = order_of(ops, values);
  std::vector<Branch> branches(ops.size());
  MemoryInTime memory(homes, blocks);
  std::size_t joined = ops.size();  // of the next op aside: once that op is done, so is this one
  // Backwards, so that it is known which later ops are aside.
  for (std::size_t i = ops.size(); i-- > 0;) {
    if (ops[i].is_barrier()) continue;
    const auto waits = [&](std::size_t j) { return ops[j].is_barrier() || std::ranges::binary_search(after[j], i); };
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
