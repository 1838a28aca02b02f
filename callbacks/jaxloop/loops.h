#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/callbacks/jaxloop/action.h>
#include <giro/callbacks/jaxloop/outputs.h>
#include <giro/callbacks/jaxloop/step.h>
#include <giro/kernels/nn/train_state.h>
#include <giro/loop/callback.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/task.h>

namespace giro::jaxloop {

// A data set with a place in it: each loop goes on where the one before has ended.
class DatasetIterator {
 public:
  explicit DatasetIterator(Dataset dataset, std::int64_t place = 0) : dataset_(std::move(dataset)), place_(place) {}

  std::int64_t place() const noexcept { return place_; }  // batches that are past
  void advance(std::int64_t batches) noexcept { place_ += batches; }
  Dataset rest() const { return dataset_.skip(place_); }
  bool is_at_end() const {
    const std::int64_t batches = dataset_.num_batches();
    return batches != Dataset::kForever && place_ >= batches;
  }

 private:
  Dataset dataset_;
  std::int64_t place_;
};

struct LoopOptions {
  std::vector<Action> begin_actions = {}, end_actions = {};  // in each interval-th loop
  // Of: "num_params", "num_flops" (of a step, on this rank: Program::flops), "init_time", "begin_time",
  // "life_time_secs", "loop_time_secs", "steps_per_sec", "examples_per_sec". They become outputs, as
  // "jaxloop/steps_per_sec".
  std::vector<std::string> stats = {};
  // Is given a line at the end of each loop. Default: nobody.
  std::function<void(const std::string& line)> log = {};
  // giro's own tasks, beside the step: {giro::every(1), giro::keras_bar({.total = 100})}.
  std::vector<Task<TrainState, Batch>> tasks = {};
};

struct LoopResult {
  TrainState state;
  LoopOutputs outputs;
};

// What TrainLoop and EvalLoop are: a step over batches of a data set, with actions before and after, and statistics.
class Loop {
 public:
  // How many loops there have been; a restored run sets it.
  std::int64_t loop_count() const noexcept { return loop_count_; }
  void set_loop_count(std::int64_t count) noexcept { loop_count_ = count; }
  Step& step() const noexcept { return *step_; }

 protected:
  // Whether a class overrides them.
  struct Hooks {
    bool begin, end;
  };
  template <class T>
  static constexpr Hooks hooks_of() {
    return {std::is_same_v<T, Step> || !std::is_same_v<decltype(&T::begin), Batch (Step::*)(TrainState&, const Batch&)>,
            std::is_same_v<T, Step> || !std::is_same_v<decltype(&T::end), Logs (Step::*)(TrainState&, Logs)>};
  }

  Loop(Step& step, Hooks hooks, LoopOptions options, std::vector<std::string> default_stats);
  ~Loop();

  class Chunks;  // the calls of one loop, one after the other
  // Runs the end actions that are due.
  void end(TrainState& state, LoopOutputs& outputs);
  double seconds() const noexcept { return seconds_; }  // that the latest run took
  // The line is made only where somebody reads it.
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
  std::optional<double> num_flops_ = {};  // once it was asked for
  std::int64_t loop_count_ = 0;
};

// Trains: train_loop(std::move(state), batches, 10) makes 10 steps, and gives the state and the outputs of each. The
// steps end early where the batches do. Logs "train    | step:     10 | steps_per_sec:  123.4".
class TrainLoop : public Loop {
 public:
  // The step outlives the loop. Error(invalid_argument) for an unknown statistic, naming the nearest.
  template <std::derived_from<Step> T>
  explicit TrainLoop(T& step, LoopOptions options = {})
      : Loop(step, hooks_of<T>(), std::move(options), {"steps_per_sec"}) {}

  // Errors: LoopError, as giro::loop.
  LoopResult operator()(TrainState state, DatasetIterator& batches, std::optional<std::int64_t> num_steps = {});

 private:
  friend class OuterLoop;
  LoopOutputs train(Chunks& chunks, std::optional<std::int64_t> num_steps);
};

// Evaluates: from the data set's first batch on, each time. Logs "eval     | step:     10 | eval time: 0.12 seconds".
class EvalLoop : public Loop {
 public:
  template <std::derived_from<Step> T>
  explicit EvalLoop(T& step, LoopOptions options = {})
      : Loop(step, hooks_of<T>(), std::move(options), {"loop_time_secs"}) {}

  // Errors: LoopError; invalid_argument where the step or an action has changed the state, naming the collection.
  LoopResult operator()(TrainState state, const Dataset& dataset, std::optional<std::int64_t> num_steps = {});
};

// That many updates a state has seen. Waits for the device.
std::int64_t step_of(const TrainState& state);

}  // namespace giro::jaxloop
