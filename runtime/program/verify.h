#pragma once

#include <string>
#include <vector>

#include "runtime/program/values.h"

namespace giro::detail {

// Whether programs are verified: if GIRO_VERIFY is 1 now.
bool verifies_programs();

// Checks a program whose tensors name values: each value has one writer, which comes before all that read it; what an
// op writes is all of a value; the dimensions of an op's arguments fit; parts, and what an op changes, lie where they
// must; nothing is read after its memory was written over; and what is needed after the program is written. `by` says
// what changed it last, e.g. "the rule fuse_expressions".
// Error(invalid_argument) that names `by` and, if it is one op's mistake, the op and the user's line.
void verify(const std::vector<HeldOp>& ops, const Values& values, const std::string& by);

}  // namespace giro::detail
