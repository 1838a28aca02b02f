#pragma once

#include <functional>

#include <giro/runtime/graph.h>

#include "runtime/program/held_op.h"

namespace giro::detail {

class GraphRecorder {
 public:
  // Like Graph::record, but `rewrite` may replace ops before they are queued.
  static Graph record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options,
                      Rewrite rewrite);
};

}  // namespace giro::detail
