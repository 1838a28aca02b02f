#pragma once

#include <giro/loop/log/logs.h>
#include <giro/runtime/state.h>

namespace giro {

// A callback that logs the state's scalar leaf "learning_rate", the learning rate of its latest update, as a metric of
// that name. It sees the state, so it is a barrier. Errors: not_found, naming the nearest leaf, if there is none;
// shape_mismatch if it is not a scalar.
struct LearningRateMonitor {
  Logs operator()(const State& state) const;
};
inline LearningRateMonitor learning_rate_monitor() { return {}; }

}  // namespace giro
