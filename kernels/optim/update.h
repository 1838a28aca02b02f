#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/var.h>
#include <giro/kernels/optim/learning_rate.h>
#include <giro/kernels/optim/value.h>
#include <giro/runtime/state.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::optim {

struct UpdateFrame;  // private

// The argument of an optimizer's function: the values of one update, each as last set. The function has no other
// effects and takes the same path each time; a choice that depends on the step is a where().
class Update {
 public:
  Value param() const;
  void set_param(const Value& value) const;
  Value grad() const;
  void set_grad(const Value& value) const;
  // Multiplies grad(). Scalar factors are combined before they are applied to the elements.
  void scale_grad(const Value& factor) const;

  // A value per element that the state keeps from update to update, as opt_state/<name>. It starts as `initial`.
  Value moment(const std::string& name, double initial = 0) const;
  // The same, but it starts as the parameter before the first update.
  Value copy_of_param(const std::string& name) const;
  void set_moment(const std::string& name, const Value& value) const;

  // Scalars. The number of this update, counted from 1; a whole number: remainder(u.step(), 5) == 0.
  Value step() const;
  // 1 - beta^step, without cancellation.
  Value correction(double beta) const;
  // The rate of this update, times the state's learning_rate_scale.
  Value rate(const LearningRate& rate) const;
  // The L2 norm of all gradients of the state together. Error(unsupported) after set_grad or scale_grad.
  Value gradient_norm() const;
  // Whether weight decay applies to the parameter; a condition.
  Value decays() const;

 private:
  friend class LeafUpdate;
  friend struct UpdateFrame;
  explicit Update(UpdateFrame& frame) : frame_(&frame) {}
  UpdateFrame* frame_;
};

// The argument of a per-leaf optimizer's function: the same for one leaf at a time, as Vars of the leaf's shape. Any op
// on Vars may be used.
class LeafUpdate {
 public:
  explicit LeafUpdate(Update& update) : update_(update) {}
  nn::Var param() const { return update_.param().var(); }
  void set_param(const nn::Var& value) const { update_.set_param(Value(value)); }
  nn::Var grad() const { return update_.grad().var(); }
  // A moment of any shape; by default, the leaf's.
  nn::Var moment(const std::string& name, double initial = 0) const { return update_.moment(name, initial).var(); }
  nn::Var moment(const std::string& name, const Shape& shape, double initial = 0) const;
  void set_moment(const std::string& name, const nn::Var& value) const { update_.set_moment(name, Value(value)); }
  nn::Var step() const;  // f32
  nn::Var correction(double beta) const { return update_.correction(beta).var(); }
  nn::Var rate(const LearningRate& rate) const { return update_.rate(rate).var(); }
  bool decays() const { return update_.decays().number() != 0; }

 private:
  Update& update_;
};

// Which parameters weight decay applies to, by their path below params, such as "dense0/kernel". Empty: all.
using DecayMask = std::function<bool(const std::string& path)>;

// An optimizer as a plain value; its moments live in the state.
struct Optimizer {
  // Its kinds from the outermost on, each with its numbers after a blank or a comma, as in "ema 0.9 (adamw)". A state
  // declares the kinds alone (State::declare).
  std::string name;
  // Sets the values of the update and queues nothing else. Empty: the parameters do not change.
  std::function<void(Update&)> update = {};
  bool is_per_leaf = false;
  DecayMask decay_mask = {};
  // If given, the optimizer of each leaf of params; neighbours that share one are updated together.
  std::function<std::vector<std::shared_ptr<const Optimizer>>(const std::vector<LeafSpec>& params)> of_leaves = {};
  int accumulated_steps = 1;
};

// An optimizer whose update is an expression: one launch over all parameters.
//
//   optim::Optimizer lion(const optim::LearningRate& rate, double b1, double b2) {
//     return optim::make("lion", [=](optim::Update& u) {
//       const auto m = u.moment("mu");
//       u.set_param(u.param() - u.rate(rate) * sign(b1 * m + (1 - b1) * u.grad()));
//       u.set_moment("mu", b2 * m + (1 - b2) * u.grad());
//     });
//   }
//
// Errors: those of Value, when a state is created with it; invalid_argument for a moment that is set but not read.
Optimizer make(std::string name, std::function<void(Update&)> update, DecayMask decay_mask = {});
// One whose update needs more than elementwise ops: products, reductions, moments of other shapes. It takes several
// launches for each leaf. With a partitioner that divides the params, creating a state is Error(unsupported).
Optimizer make_per_leaf(std::string name, const std::function<void(LeafUpdate&)>& update, DecayMask decay_mask = {});
// An optimizer around another: update(u, inner) calls inner.update(u) and may set values before and after that.
Optimizer wrap(const std::string& name, const Optimizer& inner,
               const std::function<void(Update&, const Optimizer& inner)>& update);

// The memory of an update: flat f32 buffers, all of the same count, which is a multiple of kGranule, and aligned to
// kAlignment bytes.
struct UpdateTensors {
  static constexpr int kGranule = 16;
  static constexpr std::size_t kAlignment = 16;

  Tensor params{};                                        // read and written
  Tensor grads{};                                         // read
  std::vector<std::pair<std::string, Tensor>> moments{};  // read and written; by name
  Tensor decays{};               // u8, one per granule: whether weight decay applies; empty: everywhere
  Tensor step{};                 // i64 scalar, read: steps made so far
  Tensor learning_rate{};        // f32 scalar: where the first rate is written; may be empty
  Tensor learning_rate_scale{};  // f32 scalar; empty: 1
  Tensor squared_norm{};         // f64 scalar, sum of squares of the state's grads, for an optimizer that reads it
  Tensor must_be_finite{};       // f64 scalar: only learning_rate changes if it is not finite; may be empty
  Tensor loss_scale{};           // f32 scalar that grads are multiplied by; empty: 1
  Tensor skipped{};              // i64 scalar: how many of the steps were skipped; empty: none
};

// One update over flat buffers, in one launch. Errors: shape_mismatch, dtype_mismatch, device_mismatch;
// invalid_argument for a buffer that is not aligned; not_found for a missing moment; unsupported for an optimizer that
// is per leaf or by path.
void update(const Optimizer& optimizer, const UpdateTensors& tensors, const Stream& stream);

}  // namespace giro::optim
