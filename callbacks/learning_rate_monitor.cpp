#include <giro/callbacks/learning_rate_monitor.h>

#include <giro/kernels/nn/var.h>

namespace giro {

Logs LearningRateMonitor::operator()(const State& state) const {
  // The current number: the leaf will change.
  const LogValue rate = LogValue(nn::Var(state.at("learning_rate"), state.stream())).value();
  return logs().add_entry("metrics", "learning_rate", rate, LogSchema::Rule::last);
}

}  // namespace giro
