#pragma once

#include <cstdint>
#include <functional>

#include <giro/callbacks/jaxloop/outputs.h>
#include <giro/kernels/optim/train_state.h>

namespace giro {
class Archive;
}

namespace giro::jaxloop {

// A function of the state and the outputs so far, called periodically at the beginning or end of an inner loop or of a
// step, once the device has run up to there.
class Action {
 public:
  using Function = std::function<void(TrainState& state, LoopOutputs& outputs)>;

  // Runs in every `interval`-th loop, or step of a loop. `persist` saves and restores what it remembers, so that an
  // outer loop that is resumed continues as if it had not been interrupted. Error(invalid_argument) for an interval
  // below 1, or no function.
  explicit Action(Function function, std::int64_t interval = 1, std::function<void(Archive&)> persist = {});

  std::int64_t interval() const noexcept { return interval_; }
  bool is_due(std::int64_t count) const noexcept { return count % interval_ == 0; }
  void operator()(TrainState& state, LoopOutputs& outputs) const { function_(state, outputs); }
  bool remembers() const noexcept { return static_cast<bool>(persist_); }
  void persist(Archive& archive) const {
    if (persist_) persist_(archive);
  }
  // Lets it run after the other actions that are due at the same time, so that it sees what they have changed.
  Action& run_last() noexcept {
    runs_last_ = true;
    return *this;
  }
  bool runs_last() const noexcept { return runs_last_; }

 private:
  Function function_;
  std::int64_t interval_;
  std::function<void(Archive&)> persist_;
  bool runs_last_ = false;
};

}  // namespace giro::jaxloop
