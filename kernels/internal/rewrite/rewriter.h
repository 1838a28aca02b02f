#pragma once

#include "runtime/internal/held_op.h"

namespace giro::rewrite {

// Applies the rules of rules.h, each wherever it can be applied. The environment says which: GIRO_REWRITE=0 for none,
// 1 for all, or names with a minus each, as GIRO_REWRITE=-gather_together,-splice, for all but these. Errors of
// its rewrite(): invalid_argument for anything else there.
const detail::Rewriter& rewriter();

}  // namespace giro::rewrite
