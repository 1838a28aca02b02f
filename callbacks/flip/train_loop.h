#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <giro/callbacks/flip/checkpoint.h>
#include <giro/callbacks/resume.h>
#include <giro/kernels/nn/layer.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/kernels/nn/var.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/precision.h>
#include <giro/loop/data/any_dataset.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/interrupt.h>
#include <giro/runtime/device.h>

namespace giro::flip {

// What to train.
struct TrainTask {
  nn::Layer model;  // its input is the first feature of the data
  optim::Optimizer optimizer;
  // A scalar of the model's outputs and the batch, whose other features are the targets:
  //   [](const nn::Var& logits, const Batch& batch) { return mean(softmax_cross_entropy(logits, batch["label"])); }
  std::function<nn::Var(const nn::Var& outputs, const Batch& batch)> loss;
  AnyDataset<Batch> data;  // batch k is for step k + 1; any range that can be iterated repeatedly
};

struct TrainLoopOptions {
  TrainTask task;
  std::int64_t n_steps_per_checkpoint = 1;
  std::int64_t n_steps = 0;  // in total, including those before a loaded checkpoint
  // Reads a checkpoint into the state, if there is one (CheckpointFileReader).
  std::function<Restored(TrainState& state)> init = {};
  std::uint64_t seed = 0;             // for initial values
  std::optional<Device> device = {};  // default: the best available
  std::shared_ptr<const Partitioner> partitioner = nullptr;
  Precision precision = Precision::f32;                   // used to compute the model
  std::function<void(const std::string& line)> log = {};  // called on rank 0; default: no log
};

// The training as a stream of checkpoints: one after each step s with (s - 1) % n_steps_per_checkpoint == 0, and one
// after the last.
//
//   giro::flip::TrainLoop train_loop({.task = {.model = model, .optimizer = giro::optim::sgd(0.1), .loss = loss,
//                                              .data = train},
//                                     .n_steps_per_checkpoint = 25, .n_steps = 100});
//   for (const auto& checkpoint : train_loop) { ... }
//
// Between two checkpoints the device runs alone; at each the host waits for it. The stream ends early when the data
// end, or on a signal, after the checkpoint of the current step.
class TrainLoop {
 public:
  class Iterator;
  class Checkpoints;

  // Creates the state and reads the checkpoint. Errors: invalid_argument for n_steps < 0, n_steps_per_checkpoint < 1,
  // no loss or no data; those of TrainState::create and of init; communication if the ranks have not read the same
  // checkpoint.
  explicit TrainLoop(TrainLoopOptions options);
  TrainLoop(TrainLoop&&) noexcept = default;
  TrainLoop& operator=(TrainLoop&&) noexcept = default;

  // The checkpoints from here on, until TrainLoopOptions::n_steps or until `n_steps` steps in total. Errors: LoopError,
  // as giro::loop, which ends the stream; invalid_argument if the stream has already ended for a reason other than a
  // signal.
  Iterator begin();
  std::default_sentinel_t end() const noexcept { return {}; }
  Checkpoints operator()(std::int64_t n_steps);

  // Runs one more step, or the steps until the next checkpoint. Neither ends at n_steps. Errors: LoopError;
  // invalid_argument if the stream has ended.
  Checkpoint next_step();
  Checkpoint next_checkpoint();

  std::int64_t step() const;  // updates in total
  int interrupted() const;    // the signal that has ended the stream, or 0

 private:
  struct Impl;
  const std::shared_ptr<Impl>& impl() const;
  std::shared_ptr<Impl> impl_;  // shared with its iterators
};

// Move-only. While one lives, a signal takes effect after the current step.
class TrainLoop::Iterator {
 public:
  using value_type = Checkpoint;
  using difference_type = std::ptrdiff_t;

  Iterator(std::shared_ptr<Impl> impl, std::int64_t n_steps);
  Iterator(Iterator&&) noexcept = default;
  Iterator& operator=(Iterator&&) noexcept = default;

  const Checkpoint& operator*() const { return *current_; }
  const Checkpoint* operator->() const { return &*current_; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.current_; }

 private:
  std::shared_ptr<Impl> impl_;
  std::int64_t n_steps_;
  std::unique_ptr<giro::detail::InterruptScope> signals_ = std::make_unique<giro::detail::InterruptScope>(true);
  std::optional<Checkpoint> current_ = {};
};

class TrainLoop::Checkpoints {
 public:
  Checkpoints(std::shared_ptr<Impl> impl, std::int64_t n_steps) : impl_(std::move(impl)), n_steps_(n_steps) {}
  Iterator begin() const { return {impl_, n_steps_}; }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  std::shared_ptr<Impl> impl_;
  std::int64_t n_steps_;
};

}  // namespace giro::flip
