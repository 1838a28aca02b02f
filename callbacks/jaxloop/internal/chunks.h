#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <giro/callbacks/jaxloop/action.h>
#include <giro/callbacks/jaxloop/loops.h>
#include <giro/callbacks/jaxloop/outputs.h>
#include <giro/kernels/nn/train_state.h>
#include <giro/loop/run.h>
#include <giro/runtime/device.h>

namespace giro::jaxloop {

void run_due(const std::vector<Action>& actions, std::int64_t count, TrainState& state, LoopOutputs& outputs);

// A loop's calls one after the other, each from where the batches are. They are one run, which stops at the end of each
// chunk and goes on in the next, unless the state is then one on another device. Where the program has tasks of its
// own, which begin and end with each chunk, or several ranks have to agree at its end, each chunk is a run of its own.
class Loop::Chunks {
 public:
  // The loop and the batches outlive it.
  Chunks(Loop& loop, TrainState state, DatasetIterator& batches)
      : loop_(loop), batches_(batches), state_(std::move(state)) {}
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;

  // So many steps, or as many as there are batches left, between the loop's begin actions and its statistics. The
  // batches move on with them. Errors: LoopError, after which there is no state; those of actions.
  LoopOutputs run(std::optional<std::int64_t> num_steps);
  std::int64_t steps() const noexcept { return steps_; }  // of the latest chunk
  // May be changed and replaced between two chunks.
  TrainState& state() noexcept { return run_ ? run_->state() : state_; }
  // Hands over the state.
  TrainState finish();

 private:
  void count_flops();
  void begin_run(const Period& stop);
  // The steps, with their actions. Gives the samples.
  std::int64_t advance(std::optional<std::int64_t> num_steps, LoopOutputs& outputs);
  // Takes the state back. Gives the signal that has come until then, or 0.
  int end_run();

  Loop& loop_;
  DatasetIterator& batches_;
  TrainState state_;  // while there is no run
  std::optional<Dataset> data_;
  std::optional<Run<TrainState, Dataset>> run_;
  Device device_ = Device::cpu();  // that the run works on
  std::int64_t steps_ = 0;
};

}  // namespace giro::jaxloop
