#include <giro/callbacks/learning_rate_monitor.h>

#include <giro/kernels/nn/var.h>

namespace giro {

Logs LearningRateMonitor::operator()(const State& state) const {
  // The current number: the leaf will change.
  return logs().add_metric("learning_rate", LogValue(nn::Var(state.at("learning_rate"), state.stream())).value());
}

}  // namespace giro
