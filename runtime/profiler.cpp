#include <giro/runtime/profiler.h>

#include "runtime/internal/profiling.h"

namespace giro {

void start_profiler() { cuda::set_profiling(true); }
void stop_profiler() { cuda::set_profiling(false); }

}  // namespace giro
