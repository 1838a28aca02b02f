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
  // Runs `body` as if it were recorded, and drops what it queues: shapes and dtypes are checked, but values have no
  // memory, and nothing is prepared for the device. Errors: those of `body`, and of Graph::record.
  static void dry_run(const Stream& stream, const std::function<void()>& body);
};

}  // namespace giro::detail
