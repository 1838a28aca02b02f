#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/jaxloop/action.h>
#include <giro/callbacks/resume.h>
#include <giro/kernels/nn/layer.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/device.h>
#include <giro/runtime/files/file_system.h>

namespace giro::jaxloop {

struct StepOptions {
  bool train = false;  // false: evaluate
  optim::Optimizer optimizer = optim::sgd(0.0);
  std::uint64_t seed = 0;             // for initial values and prng_key
  std::optional<Device> device = {};  // default: the best available
  std::shared_ptr<const Partitioner> partitioner = nullptr;
  // Run before and after each interval-th step of a loop, once the device has run up to there.
  std::vector<Action> begin_actions = {}, end_actions = {};
};

// What to do with a batch. Derive a class from it:
//
//   class MnistStep : public giro::jaxloop::Step {
//    public:
//     using Step::Step;
//     giro::Logs run(giro::TrainState& state, const giro::Batch& batch) override { ... }
//   };
//
// `run` is recorded as by giro::jit, and its logs are the outputs of the step. It must leave the state as it is unless
// train() is true. `begin` and `end`, if a class overrides them, run on the host in each step, and the device waits for
// them; to prepare batches use Dataset::map instead.
class Step : detail::NotCopied {
 public:
  Step(nn::Layer model, StepOptions options);
  virtual ~Step() = default;

  virtual Logs run(TrainState& state, const Batch& batch) = 0;
  virtual Batch begin(TrainState& state, const Batch& batch);
  virtual Logs end(TrainState& state, Logs outputs);

  bool train() const noexcept { return options_.train; }
  const nn::Layer& model() const noexcept { return model_; }
  const StepOptions& options() const noexcept { return options_; }
  // A separate key for each i, derived from the seed.
  std::uint64_t prng_key(std::uint64_t i) const;

  // A state at step 0 for batches of these features, the model's input first, shapes with the batch axis:
  // initialize_model({{"tokens", DType::i32, {1, 128}}}), or initialize_model(train_dataset.spec()). Without dtypes the
  // features are f32: initialize_model({{"image", {1, 28, 28, 1}}}). Errors: as TrainState::create.
  TrainState initialize_model(const BatchSpec& features) const;
  TrainState initialize_model(const std::vector<std::pair<std::string, Shape>>& features) const;
  // Reads the checkpoint of `step`, or the newest one, from a directory into a state. Errors: as restore.
  Restored restore_model(TrainState& state, const std::string& dir, std::optional<std::int64_t> step = {},
                         FileSystem& files = *posix_file_system()) const;

  // `run` as the loops call it. Errors of a call: as giro::Step.
  const giro::Step<TrainState>& recorded() const noexcept { return recorded_; }

 private:
  nn::Layer model_;
  StepOptions options_;
  giro::Step<TrainState> recorded_;
};

}  // namespace giro::jaxloop
