#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <giro/kernels/optim/train_state.h>
#include <giro/loop/time/elapsed.h>

namespace giro::flip {

namespace detail {
struct Source;
}

// The training at one step, as a TrainLoop yields it. It is a value: it does not change as the training continues.
// Copies are cheap. The tensors are copied, on their device, only if a checkpoint is still held when the stream
// continues. So
//
//   for (const auto& checkpoint : train_loop) { ... }
//
// copies nothing, and keeping a checkpoint from one iteration to the next costs one copy.
class Checkpoint {
 public:
  std::int64_t step = 0;               // updates in total
  std::int64_t n_completed_steps = 0;  // since the previous checkpoint
  double elapsed_time = 0;             // seconds for those steps
  double loss = 0;                     // of the latest step, over all ranks
  Elapsed elapsed = {};                // where the run is

  // The leaves "params/...", "opt_state/..." and "grads/..." on their device (TrainState). They are valid while a copy
  // of this lives, until the stream continues. The gradients are from the latest step. If ranks hold shards of the
  // state, the moments are this rank's pieces, and the gradients are right only in the part that this rank updates.
  // Error(invalid_argument) if the training has failed since, or if no stream has yielded this.
  std::vector<Leaf> model_params() const { return state().flatten("params"); }
  std::vector<Leaf> optimizer_state() const { return state().flatten("opt_state"); }
  std::vector<Leaf> grads() const { return state().flatten("grads"); }
  const TrainState& state() const { return mutable_state(); }
  bool is_primary() const { return state().is_primary(); }  // TrainState::is_primary

 private:
  friend class TrainLoop;
  friend class EvalLoop;
  TrainState& mutable_state() const;

  std::shared_ptr<detail::Source> source_;
};

// A checkpoint and its metrics, each with a group, such as "train" or "eval", and a label.
class Summary : public Checkpoint {
 public:
  struct Metric {
    std::string group, label;
    double value;
  };

  Summary() = default;
  Summary(Checkpoint checkpoint) : Checkpoint(std::move(checkpoint)) {}

  std::vector<Metric> metrics = {};

  // Error(not_found) naming the nearest.
  double metric(std::string_view group, std::string_view label) const;
};

}  // namespace giro::flip
