#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/program/held_op.h"

namespace giro::rules {

// Which ops of a program touch which memory. Tensors that overlap, directly or through others, lie in one region, so
// only ops of a tensor's region can touch it. Leaves that an op takes as one flat buffer are one region.
class MemoryIndex {
 public:
  explicit MemoryIndex(const std::vector<detail::HeldOp>& ops);

  // In program order. Empty for memory that no op touched when the index was made.
  const std::vector<std::size_t>& ops_at(const Tensor& tensor) const;
  // Those of them that write: few, even where many ops read parts of one array.
  const std::vector<std::size_t>& writers_at(const Tensor& tensor) const;

  // Adds or removes op `i` for the memory that `op` touches. Errors: invalid_argument, for memory in none of the
  // regions.
  void add(std::size_t i, const detail::HeldOp& op);
  void remove(std::size_t i, const detail::HeldOp& op);

 private:
  struct Region {
    std::uintptr_t begin, end;
    std::vector<std::size_t> ops, writers;
  };
  const Region* at(const Tensor& tensor) const;
  Region* at(const Tensor& tensor) { return const_cast<Region*>(std::as_const(*this).at(tensor)); }

  std::vector<Region> regions_;  // by address
};

}  // namespace giro::rules
