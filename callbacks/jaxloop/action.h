#pragma once

#include <cstdint>
#include <functional>

#include <giro/callbacks/jaxloop/outputs.h>
#include <giro/kernels/nn/train_state.h>

namespace giro::jaxloop {

// A function of the state and the outputs so far, called periodically at the beginning or end of an inner loop or of a
// step, once the device has run up to there.
class Action {
 public:
  using Function = std::function<void(TrainState& state, LoopOutputs& outputs)>;

  // Runs in every `interval`-th loop, or step of a loop. Error(invalid_argument) for an interval below 1, or no
  // function.
  explicit Action(Function function, std::int64_t interval = 1);

  std::int64_t interval() const noexcept { return interval_; }
  bool is_due(std::int64_t count) const noexcept { return count % interval_ == 0; }
  void operator()(TrainState& state, LoopOutputs& outputs) const { function_(state, outputs); }

 private:
  Function function_;
  std::int64_t interval_;
};

}  // namespace giro::jaxloop
