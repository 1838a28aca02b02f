#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <giro/kernels/nn/train_state.h>
#include <giro/loop/time/elapsed.h>

namespace giro::flip {

namespace detail {
struct Source;
}

// The training at one step, as a TrainLoop yields it. A value: it stays as it is while the training goes on. Copies of
// it are cheap. The tensors are copied, on their device, only if one is still held when the stream goes on, so
//
//   for (const auto& checkpoint : train_loop) { ... }
//
// costs no copy, and a checkpoint that is kept from one round to another costs one.
class Checkpoint {
 public:
  std::int64_t step = 0;               // updates in all
  std::int64_t n_completed_steps = 0;  // since the checkpoint before
  double elapsed_time = 0;             // seconds that those took
  double loss = 0;                     // of the latest step, over all ranks
  Elapsed elapsed = {};                // where the run is

  // The leaves "params/...", "opt_state/..." and "grads/..." on their device (TrainState); valid as long as a copy of
  // this lives and the stream does not go on. The gradients are those of the latest step. Where ranks have shards of
  // the state, the moments are this rank's pieces, and the gradients are right in what this rank updates alone.
  // Error(invalid_argument) where the training has failed since, and for one that no stream has made.
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

// A checkpoint and its metrics, by their group, such as "train" or "eval", and label.
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
