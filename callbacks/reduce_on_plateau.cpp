#include <giro/callbacks/reduce_on_plateau.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <giro/runtime/files/archive.h>

#include "runtime/throw_error.h"

namespace giro {

ReduceOnPlateau::ReduceOnPlateau(const std::string& monitor, const ReduceOnPlateauOptions& options)
    : options_(options),
      memory_(std::make_shared<Memory>(Memory{.monitor = Monitor(monitor, options.mode, options.min_delta)})) {
  const auto check = [&](bool good, const char* what, double found, const char* expected) {
    if (good) return;
    throw_invalid("reduce_on_plateau '{}': {} is {}, expected {}", monitor, what, found, expected);
  };
  check(options.factor > 0 && options.factor < 1, "factor", options.factor, "a number in (0, 1)");
  check(options.patience >= 0, "patience", static_cast<double>(options.patience), "at least 0");
  check(options.cooldown >= 0, "cooldown", static_cast<double>(options.cooldown), "at least 0");
  check(std::isfinite(options.min_scale) && options.min_scale >= 0, "min_scale", options.min_scale,
        "a finite number >= 0");
}

void ReduceOnPlateau::evaluate(const State& state, const Logs& logs, const Partitioner* ranks) {
  Memory& memory = *memory_;
  const std::optional<double> value = memory.monitor.value(logs, ranks);
  if (!value) return;
  const Tensor leaf = state.at("learning_rate_scale");
  const bool is_better = memory.monitor.update(*value);
  if (memory.cooling > 0) {
    --memory.cooling;
    memory.waited = 0;
  } else {
    memory.waited = is_better ? 0 : memory.waited + 1;
  }
  if (memory.waited < std::max<std::int64_t>(options_.patience, 1)) return;
  const auto scale = static_cast<double>(to_host<float>(leaf, state.stream()).front());
  const double reduced = std::min(scale, std::max(scale * options_.factor, options_.min_scale));
  from_host(leaf, std::vector{static_cast<float>(reduced)}, state.stream());
  memory.waited = 0;
  memory.cooling = options_.cooldown;
  ++memory.reductions;
}

void ReduceOnPlateau::persist(Archive& archive) {
  memory_->monitor.persist(archive);
  archive("waited", memory_->waited)("cooling", memory_->cooling)("reductions", memory_->reductions);
}

}  // namespace giro
