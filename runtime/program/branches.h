#pragma once

#include <cstddef>
#include <vector>

#include "runtime/program/homes.h"

namespace giro::detail {

// Where an op of a program runs. Most run one after the other. An op that is `on_side_stream` starts after all ops
// before it and runs concurrently with those after it, up to op `joined`, which waits for it. Ops aside also run one
// after the other.
struct Branch {
  bool on_side_stream = false;
  std::size_t joined = 0;  // for an op aside; the number of ops means after the last op
};

// Puts ops aside to shorten the longest chain of ops: each for as long as nothing needs its results, or for a shorter
// time if it would raise the peak memory otherwise. Extends the lifetimes of `blocks`, those of `homes`, accordingly.
// All ops must be of one stream, except those that keep their place.
std::vector<Branch> plan_branches(const std::vector<HeldOp>& ops, const Values& values, const Homes& homes,
                                  std::vector<PlannedBlock>& blocks);

}  // namespace giro::detail
