#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <giro/callbacks/monitor.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/loop/events.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/log/logs.h>
#include <giro/runtime/error.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/state.h>

namespace giro {

struct ReduceOnPlateauOptions {
  double factor = 0.1;         // multiplies the learning rate
  std::int64_t patience = 10;  // evaluations in a row without a better value (0 acts as 1)
  double min_delta = 0;        // a value is better only if it is better by more than this
  std::string mode = "auto";   // "min", "max", or "auto": as the entry itself says (Var::direction)
  std::int64_t cooldown = 0;   // evaluations after a reduction that do not count
  double min_scale = 0;        // the smallest learning_rate_scale
};

// A callback that reduces the learning rate when an entry of the logs, a name or "collection.name", stops improving: it
// multiplies the state's leaf learning_rate_scale, which multiplies every rate of a TrainState's optimizer. It reads
// the latest value logged since the loop began; NaN is never better. It sees the state, so it is a barrier. Copies
// share the best value and the wait so far, and a checkpoint saves them. With several ranks rank 0's value decides for
// all.
//
// Errors: invalid_argument for an unknown mode, a negative patience, min_delta, cooldown or min_scale, or a factor
// outside (0, 1); in the first step that logs the entry, if the mode is "auto" and the entry does not say which way it
// is better. When called: not_found, naming the nearest entry, if the entry was never logged, or leaf, if the
// state has no learning_rate_scale; unsupported for a state that is not a State.
class ReduceOnPlateau : public GenericCallback {
 public:
  static constexpr LoopEvent kEvent = LoopEvent::on_epoch_end;  // in the list `callbacks` of a train loop

  ReduceOnPlateau(const std::string& monitor, const ReduceOnPlateauOptions& options);

  void persist(Archive& archive);
  bool on_logged(const LogSchema& entries) { return memory_->monitor.learn_mode(entries); }

  template <class S, class B>
  void on_start(LoopState<S, B>& loop) {
    memory_->monitor.begin(loop.elapsed);
  }
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    if (detail::may_be_interrupted()) return;  // the evaluation may have been cut short
    if constexpr (std::is_base_of_v<State, S>) {
      evaluate(loop.state, loop.accumulated_logs(), loop.partitioner());
    } else {
      throw Error(ErrorCode::unsupported, "reduce_on_plateau: expected a State with a leaf learning_rate_scale");
    }
  }

  double best() const noexcept { return memory_->monitor.best(); }  // NaN while there is none
  std::int64_t reductions() const noexcept { return memory_->reductions; }

 private:
  struct Memory {
    Monitor monitor;
    std::int64_t waited = 0, cooling = 0, reductions = 0;
  };

  void evaluate(const State& state, const Logs& logs, const Partitioner* ranks);

  ReduceOnPlateauOptions options_;
  detail::Handle<Memory> memory_;
};

inline ReduceOnPlateau reduce_on_plateau(const std::string& monitor, const ReduceOnPlateauOptions& options = {}) {
  return {monitor, options};
}

}  // namespace giro
