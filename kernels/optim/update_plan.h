#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/kernels/nn/partitioner.h>
#include <giro/kernels/optim/loss_scale.h>
#include <giro/kernels/optim/update.h>
#include <giro/runtime/state.h>

namespace giro::optim {

// A state collection that an optimizer reads and updates.
struct Moment {
  std::string name;
  std::optional<Shape> shape = {};  // default: the parameter's
  double initial = 0;
  bool copies_param = false;  // before the first update
};

// What an optimizer's function requested in one run.
struct UpdateNeeds {
  std::vector<Moment> moments;
  bool norm = false;
  std::vector<LearningRate> rates;
  std::vector<double> numbers;  // the constants of its expression
};

// Runs the function for a leaf of this shape without computing anything.
UpdateNeeds needs_of(const Optimizer& optimizer, const Shape& leaf, const Stream& stream);
// One update of a single leaf by a per-leaf optimizer. The tensors have the leaf's shape.
void update_leaf(const Optimizer& optimizer, const UpdateTensors& tensors, bool decays, const Stream& stream);

// How an optimizer updates the params of a state: which leaves are updated together, and the collections they need.
class UpdatePlan {
 public:
  // Runs the optimizer's functions without computing anything. Errors: those of the optimizer; unsupported for a
  // per-leaf optimizer with several shards.
  UpdatePlan(const Optimizer& optimizer, const std::vector<LeafSpec>& params, const Shard& shard, const Stream& stream);

  // Adds the moments with their initial values, and the mask of leaves that decay. Declares what they mean.
  void add_to(State& state) const;
  // Whether a leaf of params, by its index, never changes.
  bool is_frozen(std::size_t leaf) const { return is_frozen_[leaf]; }
  // Queues one update of the state's params from its grads. Does not count the step.
  void apply(const State& state, const LossScale& scale, const Partitioner* partitioner) const;
  // What must be the same on all ranks, one item per line.
  std::string description() const;

 private:
  // Neighbouring leaves.
  struct Group {
    std::shared_ptr<const Optimizer> optimizer;
    std::size_t first, last;
    UpdateNeeds needs;
  };
  // A collection of moments of some leaves.
  struct Moments {
    std::string name;
    std::vector<LeafSpec> leaves;
    std::vector<Moment> moments;         // of these leaves
    std::vector<std::size_t> of_params;  // these leaves' indices
  };

  void declare_in(State& state) const;
  void apply(const State& state, const Group& group, UpdateTensors tensors) const;

  std::vector<LeafSpec> params_;
  Shard shard_;
  std::shared_ptr<const Optimizer> optimizer_;
  bool has_decay_mask_ = false;
  std::vector<bool> is_frozen_, decays_;  // each leaf of params
  std::vector<std::int64_t> granules_;    // where each leaf of params begins, and the end
  std::vector<Group> groups_;
  std::vector<Moments> moments_;
};

}  // namespace giro::optim
