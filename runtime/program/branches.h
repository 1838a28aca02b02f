#pragma once

#include <cstddef>
#include <vector>

#include "runtime/program/temporaries.h"

namespace giro::detail {

// Where an op of a program runs. Most run one after the other. One that is `aside` starts after all that come before it
// and runs beside those that follow, up to op `joined`, which waits for it; those aside run one after the other, too.
struct Branch {
  bool aside = false;
  std::size_t joined = 0;  // of an op aside; the number of ops: after the last
};

// Whether GIRO_BRANCHES leaves them on, as of now.
bool branches_are_on();

// Puts ops aside, so that the longest chain of ops gets shorter: each for as long as nothing needs what it does, or for
// a shorter time if otherwise more memory were needed at once. Temporaries are then needed for as long. All ops
// are of one stream, but for those that keep their places.
std::vector<Branch> plan_branches(const std::vector<HeldOp>& ops, Temporaries& temporaries);

}  // namespace giro::detail
