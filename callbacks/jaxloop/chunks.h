#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <giro/callbacks/jaxloop/action.h>
#include <giro/callbacks/jaxloop/loops.h>
#include <giro/callbacks/jaxloop/outputs.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/run.h>
#include <giro/runtime/device.h>

namespace giro::jaxloop {

void run_due(const std::vector<Action>& actions, std::int64_t count, TrainState& state, LoopOutputs& outputs);

// The successive calls of a loop, each continuing in the batches where the last one ended. They are one run, which
// stops at the end of each chunk and continues in the next, unless the state has moved to another device. If the
// program adds its own tasks, which begin and end with each chunk, or several ranks must agree at its end, each chunk
// is a separate run.
class Loop::Chunks : detail::NotCopied {
 public:
  // The loop and the batches must outlive it.
  Chunks(Loop& loop, TrainState state, DatasetIterator& batches)
      : loop_(loop), batches_(batches), state_(std::move(state)) {}

  // Runs the begin actions and `num_steps` steps, or as many as there are batches left, and adds the statistics.
  // Advances the batches. Errors: LoopError, after which there is no state; those of actions.
  LoopOutputs run(std::optional<std::int64_t> num_steps);
  std::int64_t steps() const noexcept { return steps_; }  // of the latest chunk
  // May be changed and replaced between two chunks.
  TrainState& state() noexcept { return run_ ? run_->state() : state_; }
  // Hands over the state.
  TrainState finish();

 private:
  void count_flops();
  void begin_run(const Period& stop);
  // Runs the steps with their actions. Returns the number of samples.
  std::int64_t advance(std::optional<std::int64_t> num_steps, LoopOutputs& outputs);
  // Takes the state back. Returns the signal received by then, or 0.
  int end_run();

  Loop& loop_;
  DatasetIterator& batches_;
  TrainState state_;  // while there is no run
  std::optional<AnyDataset<Batch>> data_;
  std::optional<Run<TrainState, AnyDataset<Batch>>> run_;
  Device device_ = Device::cpu();  // used by the run
  std::int64_t steps_ = 0;
};

}  // namespace giro::jaxloop
