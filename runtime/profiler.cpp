#include <giro/runtime/profiler.h>

#include "runtime/backend.h"
#include "runtime/trace_recorder.h"

namespace giro {

void start_profiler() {
  if (cuda::set_profiling(true)) detail::TraceRecorder::instance().set_ranges(true);
}
void stop_profiler() {
  detail::TraceRecorder::instance().set_ranges(false);
  (void)cuda::set_profiling(false);
}

}  // namespace giro
