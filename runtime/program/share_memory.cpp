#include "runtime/program/share_memory.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "runtime/internal/arena.h"
#include "runtime/program/memory_moves.h"

namespace giro::detail {
namespace {

struct Uses {
  std::size_t first, last;                   // ops
  std::size_t bytes = 0;                     // that any op touches, counted from the beginning
  std::size_t readers = 0, last_reader = 0;  // number of ops that read it, and the last
};

class Sharing {
 public:
  Sharing(std::vector<HeldOp>& ops, const Arena& trace, bool has_branches)
      : ops_(ops), trace_(trace), has_branches_(has_branches) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const auto* tensors : {&ops[i].node.reads, &ops[i].node.writes}) {
        for (const Tensor& tensor : *tensors) {
          const char* const block = temporary(tensor);
          if (block == nullptr) continue;
          Uses& uses = uses_.try_emplace(block, Uses{i, i}).first->second;
          const auto begin = static_cast<std::size_t>(static_cast<const char*>(tensor.raw()) - block);
          if (tensors == &ops[i].node.reads && (uses.readers == 0 || uses.last_reader != i)) {
            ++uses.readers;
            uses.last_reader = i;
          }
          uses.last = i;
          uses.bytes = std::max(uses.bytes, begin + tensor.bytes());
        }
      }
    }
  }

  void run() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      taken_.clear();
      for (const Tensor& write : ops_[i].node.writes) take_memory(i, write);
      if (is_moved_) move(ops_[i]);
    }
  }

 private:
  // The beginning of the temporary that contains this tensor; null if there is none.
  const char* temporary(const Tensor& tensor) const {
    const auto* const block = trace_.block_at(tensor.raw());
    return block != nullptr && block->second.free && !block->second.pinned ? block->first : nullptr;
  }
  bool is_all_of_one(const Tensor& tensor) const {
    return tensor && temporary(tensor) == tensor.raw() && uses_.at(temporary(tensor)).bytes == tensor.bytes();
  }

  // Finds memory to reuse for what op `i` writes, if op `i` is the first to use it.
  void take_memory(std::size_t i, const Tensor& write) {
    if (!is_all_of_one(write) || uses_.at(temporary(write)).first != i) return;
    for (const Tensor& read : ops_[i].node.reads) {
      if (!is_all_of_one(read) || read.bytes() != write.bytes() || uses_.at(temporary(read)).last != i) continue;
      if (has_branches_ && uses_.at(temporary(read)).readers > 1) continue;
      if (!ops_[i].call->can_write_over(write, read)) continue;
      auto* const to = static_cast<char*>(moves_(read.raw()));
      if (std::find(taken_.begin(), taken_.end(), to) != taken_.end()) continue;
      moves_.add(temporary(write), Arena::block_size(write.bytes()), to);
      taken_.push_back(to);
      is_moved_ = true;
      return;
    }
  }

  void move(HeldOp& op) {
    for (auto* tensors : {&op.node.reads, &op.node.writes}) {
      for (Tensor& tensor : *tensors) tensor = moves_(tensor);
    }
    op.call->move(moves_);
  }

  std::vector<HeldOp>& ops_;
  const Arena& trace_;
  const bool has_branches_;
  std::map<const char*, Uses> uses_;
  MemoryMoves moves_;
  std::vector<char*> taken_;  // by the current op
  bool is_moved_ = false;     // whether any value was moved
};

}  // namespace

void share_memory(std::vector<HeldOp>& ops, const Arena& trace, bool has_branches) {
  if (trace.shares()) Sharing(ops, trace, has_branches).run();
}

}  // namespace giro::detail
