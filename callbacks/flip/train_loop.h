#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <giro/callbacks/flip/checkpoint.h>
#include <giro/callbacks/restore.h>
#include <giro/kernels/nn/layer.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/kernels/nn/var.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/data/dataset.h>
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
  Dataset data;  // batch k is that of step k + 1
};

struct TrainLoopOptions {
  TrainTask task;
  std::int64_t n_steps_per_checkpoint = 1;
  std::int64_t n_steps = 0;  // in all, those included that a checkpoint was read after
  // Reads a checkpoint into the state, if there is one (CheckpointFileReader).
  std::function<Restored(TrainState& state)> init = {};
  std::uint64_t seed = 0;             // of initial values
  std::optional<Device> device = {};  // default: the best there is
  std::shared_ptr<const Partitioner> partitioner = nullptr;
  std::function<void(const std::string& line)> log = {};  // of rank 0; default: nobody
};

// The training as a stream of checkpoints: one after step s where (s - 1) % n_steps_per_checkpoint == 0, and one after
// the last.
//
//   giro::flip::TrainLoop train_loop({.task = {.model = model, .optimizer = giro::optim::sgd(0.1), .loss = loss,
//                                              .data = train},
//                                     .n_steps_per_checkpoint = 25, .n_steps = 100});
//   for (const auto& checkpoint : train_loop) { ... }
//
// Between two checkpoints the device runs alone; at each the host waits for it. The stream ends early where the data
// end, or with a signal: after the checkpoint of the step at hand.
class TrainLoop {
 public:
  class Iterator;
  class Checkpoints;

  // Makes the state, and reads the checkpoint. Errors: invalid_argument for n_steps < 0, n_steps_per_checkpoint < 1 or
  // no loss; those of TrainState::create and of init; communication where the ranks have not read the same.
  explicit TrainLoop(TrainLoopOptions options);
  TrainLoop(TrainLoop&&) noexcept;
  TrainLoop& operator=(TrainLoop&&) noexcept;
  ~TrainLoop();

  // The checkpoints until n_steps, from here on; or until so many steps in all. Errors: LoopError, as of giro::loop,
  // after which the stream has ended; invalid_argument where it has ended before for another reason than a signal.
  Iterator begin();
  std::default_sentinel_t end() const noexcept { return {}; }
  Checkpoints operator()(std::int64_t n_steps);

  // One step more; or the steps that remain until the next checkpoint. Neither ends at n_steps. Errors: LoopError;
  // invalid_argument where the stream has ended.
  Checkpoint next_step();
  Checkpoint next_checkpoint();

  std::int64_t step() const;  // updates in all
  int interrupted() const;    // the signal that has ended the stream, or 0

 private:
  struct Impl;
  const std::shared_ptr<Impl>& impl() const;
  std::shared_ptr<Impl> impl_;  // and its iterators'
};

// Move-only. While one lives, a signal waits for the step at hand.
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
