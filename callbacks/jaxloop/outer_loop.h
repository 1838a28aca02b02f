#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <giro/callbacks/jaxloop/loops.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/any_dataset.h>
#include <giro/loop/data/batch.h>

namespace giro::jaxloop {

// What an eval loop evaluates, and when.
struct EvalSpec {
  AnyDataset<Batch> dataset;
  std::optional<std::int64_t> num_steps = {};  // default: all of it
  std::int64_t eval_loop_interval = 1;         // evaluates in every n-th round
  // Called in those rounds with the state's step: whether to evaluate. Default: always.
  std::function<bool(std::int64_t step)> should_eval_fn = {};
};

// Where checkpoints are: the next outer loop resumes from those that checkpoint_action has saved there.
struct CheckpointSpec {
  std::string checkpoint_dir;
  // For an outer loop without a train loop: how often it looks for another checkpoint, and whether it ends. Default:
  // when the training has left the file STOPPED. The next training in the directory removes that file when it begins,
  // so start the evaluation after it.
  double iterate_interval_secs = 1;
  std::function<bool()> iterate_stop_fn = {};
};

struct OuterLoopOptions {
  TrainLoop* train_loop = nullptr;  // null: evaluates checkpoints that another process makes
  std::vector<EvalLoop*> eval_loops = {};
  std::optional<CheckpointSpec> checkpoint_spec = {};
  std::function<void(const std::string& line)> log = {};  // called with warnings
};

struct OuterLoopArguments {
  AnyDataset<Batch> train_dataset = {};
  std::int64_t train_total_steps = 0;     // of the state, including those made before this call
  std::int64_t train_loop_steps = 0;      // steps of each train loop
  std::vector<EvalSpec> eval_specs = {};  // one for each eval loop
};

// Trains in chunks, and evaluates in between:
//
//   giro::jaxloop::OuterLoop outer_loop({.train_loop = &train_loop, .eval_loops = {&eval_loop}});
//   auto [state, outputs] = outer_loop(step.initialize_model({{"image", {1, 28, 28, 1}}}),
//       {.train_dataset = train, .train_total_steps = 100, .train_loop_steps = 10, .eval_specs = {{eval, 100}}});
//
// Each step of the state has its own batch of the train dataset, so training can resume at any step: the first chunk is
// then the rest of the current one. With a checkpoint_spec it resumes from the newest checkpoint, if there is one,
// removes the file STOPPED of an earlier training, and creates one when it ends. Each round is a chunk of training,
// then the eval loops that are due. An action that sets stop_loop in the outputs, on any rank, ends the training after
// its round. A signal ends it after the current step, or after the next one if it arrives between two loops.
//
// A checkpoint_action also saves how many loops have run and what their actions remember, such as the best value and
// the patience of an early_stopping_action. If a training was killed between the checkpoint of a round and the end of
// its evaluations, the resumed one first makes up for these. So it goes on as one that was never interrupted, if the
// checkpoint_action is one of the end actions of a loop.
class OuterLoop {
 public:
  // The loops must outlive it.
  explicit OuterLoop(OuterLoopOptions options) : options_(std::move(options)) {}

  // Returns the state and the outputs of the last chunk. Errors: LoopError of the loops; those of restore;
  // invalid_argument for no train dataset or no dataset to evaluate, train_loop_steps or eval_loop_interval below 1,
  // different numbers of eval_specs and eval loops, no loop at all, or no checkpoint_spec to evaluate from; unsupported
  // for evaluation without training on several ranks.
  LoopResult operator()(TrainState state, const OuterLoopArguments& arguments);

 private:
  LoopResult train(TrainState state, const OuterLoopArguments& arguments);
  LoopResult evaluate_checkpoints(TrainState state, const OuterLoopArguments& arguments);
  // Runs the eval loops that are due, from `next` on, which becomes the one after. Returns whether one of them stops
  // the training.
  bool evaluate(TrainState& state, const OuterLoopArguments& arguments, std::int64_t round, std::size_t& next,
                int& interrupted);
  // Saves or restores what the loops remember, the next eval loop of this round, and whether the training stops after
  // it.
  void persist(Archive& archive, std::size_t& next_eval, bool& stops);
  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  OuterLoopOptions options_;
};

}  // namespace giro::jaxloop
