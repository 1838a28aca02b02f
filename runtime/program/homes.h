#pragma once

#include <cstddef>
#include <vector>

#include "runtime/program/memory_plan.h"
#include "runtime/program/values.h"

namespace giro::detail {

// The memory of a program's values. One that is needed after the program has an address already, and so does a
// temporary that is still held; all other temporaries have blocks. Values of one array share a block, and so do a
// result and what it is written over.
class Homes {
 public:
  // If `run_aside`, ops that do not depend on each other may run at the same time (branches.h). `trace` holds the
  // temporaries.
  Homes(const std::vector<HeldOp>& ops, const Values& values, const Arena& trace, bool run_aside);

  // The memory of what a tensor names, if the blocks lie in this memory.
  Tensor placed(const Tensor& tensor, char* memory) const;

  std::vector<PlannedBlock> blocks;             // each needed from the first op that reads or writes it to the last
  std::vector<std::vector<std::size_t>> of_op;  // the blocks that an op reads or writes

 private:
  struct Home {
    std::size_t block;
    std::size_t offset;
  };
  struct Array;
  std::vector<Array> arrays_of(const Arena& trace);
  void take_memory(const HeldOp& op, std::size_t i, std::vector<Array>& arrays, bool run_aside) const;

  const Values* values_;
  std::vector<Home> homes_;  // by value; no block: it has an address
};

}  // namespace giro::detail
