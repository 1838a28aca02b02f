#include "runtime/program/temporaries.h"

#include <algorithm>
#include <map>

#include "runtime/internal/arena.h"

namespace giro::detail {

Temporaries::Temporaries(const std::vector<HeldOp>& ops, const Arena& trace) : of_op(ops.size()) {
  if (!trace.shares()) return;
  std::map<const char*, std::size_t> indices;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const auto* tensors : {&ops[i].node.reads, &ops[i].node.writes}) {
      for (const Tensor& tensor : *tensors) {
        const auto* const traced = trace.block_at(tensor.raw());
        if (traced == nullptr || !traced->second.free || traced->second.pinned) continue;
        const auto [at, is_new] = indices.try_emplace(traced->first, blocks.size());
        if (is_new) {
          addresses.push_back(traced->first);
          blocks.push_back({0, i, i});
        }
        PlannedBlock& block = blocks[at->second];
        const auto end =
            static_cast<std::size_t>(static_cast<const char*>(tensor.raw()) - traced->first) + tensor.bytes();
        block.bytes = std::max(block.bytes, Arena::block_size(end));
        block.last = i;
        if (of_op[i].empty() || of_op[i].back() != at->second) of_op[i].push_back(at->second);
      }
    }
  }
}

}  // namespace giro::detail
