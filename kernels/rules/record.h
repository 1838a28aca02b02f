#pragma once

#include <functional>

#include <giro/runtime/program/graph.h>

namespace giro::rules {

// Graph::record, with the rules of rules.h applied wherever possible. The environment variable GIRO_REWRITE selects the
// rules: 0 for none, 1 for all, or names with a minus sign to leave those out, for example
// GIRO_REWRITE=-fuse_gathers,-fuse_expressions. Errors: those of Graph::record, and invalid_argument for any other
// value of GIRO_REWRITE.
Graph record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options = {});

}  // namespace giro::rules
