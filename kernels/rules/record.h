#pragma once

#include <functional>

#include <giro/runtime/graph.h>

namespace giro::rules {

// Graph::record, with the rules of rules.h applied, each wherever it can be. The environment says which: GIRO_REWRITE=0
// for none, 1 for all, or names with a minus each, as GIRO_REWRITE=-gather_together,-splice, for all but these. Errors:
// those of Graph::record, and invalid_argument for anything else there.
Graph record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options = {});

}  // namespace giro::rules
