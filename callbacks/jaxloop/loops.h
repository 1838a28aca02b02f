#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/callbacks/jaxloop/action.h>
#include <giro/callbacks/jaxloop/outputs.h>
#include <giro/callbacks/jaxloop/step.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/callback.h>
#include <giro/loop/data/any_dataset.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/task.h>

namespace giro::jaxloop {

// A dataset, or any other range of batches that can be iterated repeatedly, with a position: each loop continues where
// the previous one ended.
class DatasetIterator {
 public:
  // Error(invalid_argument) for a dataset without a range.
  explicit DatasetIterator(AnyDataset<Batch> dataset, std::int64_t position = 0);

  std::int64_t position() const noexcept { return position_; }  // batches used so far
  void advance(std::int64_t batches) noexcept { position_ += batches; }
  AnyDataset<Batch> rest() const { return dataset_.skip(position_); }
  // If the range has no num_batches(), it is traversed once more, up to the position.
  bool is_at_end() const;

 private:
  struct Cursor {
    AnyDataset<Batch>::Iterator it;
    std::int64_t position;
  };

  AnyDataset<Batch> dataset_;
  std::int64_t position_;
  mutable std::shared_ptr<Cursor> cursor_;  // kept, so that another call passes only the batches since
};

struct LoopOptions {
  std::vector<Action> begin_actions = {}, end_actions = {};  // run in every interval-th loop
  // Any of "num_params", "num_flops" (of a step, on this rank: Program::flops), "init_time", "begin_time",
  // "life_time_secs", "loop_time_secs", "steps_per_sec", "examples_per_sec". They become outputs such as
  // "jaxloop/steps_per_sec".
  std::vector<std::string> stats = {};
  // Called with a line at the end of each loop. Default: no log.
  std::function<void(const std::string& line)> log = {};
  // giro's own tasks, run with the step: {giro::every(1), giro::keras_bar({.total = 100})}.
  std::vector<Task<TrainState, Batch>> tasks = {};
};

struct LoopResult {
  TrainState state;
  LoopOutputs outputs;
};

// Base of TrainLoop and EvalLoop: a step over batches of a dataset, with actions before and after, and statistics.
class Loop {
 public:
  // How many loops have run; a restored run sets it.
  std::int64_t loop_count() const noexcept { return loop_count_; }
  void set_loop_count(std::int64_t count) noexcept { loop_count_ = count; }
  Step& step() const noexcept { return *step_; }
  // Saves or restores loop_count() and what the actions remember.
  void persist(Archive& archive);

 protected:
  friend class OuterLoop;  // sets memory_
  // Whether a class overrides Step::begin and Step::end.
  struct Hooks {
    bool begin, end;
  };
  template <class T>
  static constexpr Hooks hooks_of() {
    return {std::is_same_v<T, Step> || !std::is_same_v<decltype(&T::begin), Batch (Step::*)(TrainState&, const Batch&)>,
            std::is_same_v<T, Step> || !std::is_same_v<decltype(&T::end), Logs (Step::*)(TrainState&, Logs)>};
  }

  Loop(Step& step, Hooks hooks, LoopOptions options, std::vector<std::string> default_stats);
  ~Loop() = default;

  class Chunks;  // the successive calls of one loop
  // Lets actions save what the outer loop remembers, while `outputs` lives.
  void offer_memory(LoopOutputs& outputs) const;
  // Runs the end actions that are due.
  void end(TrainState& state, LoopOutputs& outputs);
  double seconds() const noexcept { return seconds_; }  // of the latest run
  // Formats the line only if there is a log.
  template <class Line>
  void log(Line&& line) const {
    if (options_.log) options_.log(line());
  }

 private:
  void add_stats(LoopOutputs& outputs, const TrainState& state, double begin, std::int64_t steps,
                 std::int64_t samples) const;

  Step* step_;
  Hooks hooks_;
  LoopOptions options_;
  double init_time_, seconds_ = 0;
  std::optional<double> num_flops_ = {};  // set once it has been computed
  std::int64_t loop_count_ = 0;
  // Of an outer loop, for LoopOutputs::memory; `stops`: whether the outputs ask to stop.
  std::function<void(Archive&, bool stops)> memory_ = {};
};

// Trains: train_loop(std::move(state), batches, 10) runs 10 steps and returns the state and the outputs of each step.
// It ends early when the batches do. Logs "train    | step:     10 | steps_per_sec:  123.4".
class TrainLoop : public Loop {
 public:
  // The step must outlive the loop. Error(invalid_argument) for an unknown statistic, naming the nearest.
  template <std::derived_from<Step> T>
  explicit TrainLoop(T& step, LoopOptions options = {})
      : Loop(step, hooks_of<T>(), std::move(options), {"steps_per_sec"}) {}

  // Errors: LoopError, as giro::loop.
  LoopResult operator()(TrainState state, DatasetIterator& batches, std::optional<std::int64_t> num_steps = {});

 private:
  friend class OuterLoop;
  LoopOutputs train(Chunks& chunks, std::optional<std::int64_t> num_steps);
};

// Evaluates, always from the dataset's first batch on. Logs "eval | step: 10 | eval time: 0.12 seconds".
class EvalLoop : public Loop {
 public:
  template <std::derived_from<Step> T>
  explicit EvalLoop(T& step, LoopOptions options = {})
      : Loop(step, hooks_of<T>(), std::move(options), {"loop_time_secs"}) {}

  // Errors: LoopError; invalid_argument if the step or an action has changed the state, naming the collection.
  LoopResult operator()(TrainState state, const AnyDataset<Batch>& dataset, std::optional<std::int64_t> num_steps = {});
};

// How many updates a state has seen. Waits for the device.
std::int64_t step_of(const TrainState& state);

}  // namespace giro::jaxloop
