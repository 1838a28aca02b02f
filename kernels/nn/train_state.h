#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/kernels/nn/layer.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/kernels/nn/precision.h>
#include <giro/kernels/optim/loss_scale.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/runtime/device_context.h>
#include <giro/runtime/state.h>

namespace giro {

// The state of training a model, on one device. Its tree:
//   params/...          f32, one buffer
//   grads/...           f32, like params; not saved. With f16 multiplied by loss_scale/scale
//   opt_state/mu/...    f32, like params, and opt_state/nu/...: the moments that the optimizer has. With a partitioner
//                       that divides the params among the ranks, this rank's pieces of them (Leaf::piece)
//   loss_scale/...      only with f16: scale, good_steps and skipped of optim::LossScale
//   step                i64 scalar: updates made or skipped
//   learning_rate       f32 scalar: of the latest update; not saved
//   seed                i64 scalar
class TrainState : public State {
 public:
  // Draws the parameters from `seed`, for inputs like the first feature of `spec` (batch axis included); the values are
  // the same on every device. `context` defaults to a new one for the best available device. With a partitioner, the
  // state is one of several ranks' and starts with rank 0's values. The model is computed in `precision`, both in
  // training and with params(). Errors: shape_mismatch, invalid_argument, device, communication; unsupported for a
  // precision that the device does not compute in.
  static TrainState create(const nn::Layer& model, const std::vector<LeafSpec>& spec, optim::Optimizer optimizer,
                           std::uint64_t seed, DeviceContext context = discover_devices().best(),
                           std::shared_ptr<const Partitioner> partitioner = nullptr,
                           Precision precision = Precision::f32);

  const nn::Layer& model() const noexcept { return model_; }
  const optim::Optimizer& optimizer() const noexcept { return optimizer_; }
  Precision precision() const noexcept { return precision_; }
  // Null if this process trains alone.
  const std::shared_ptr<const Partitioner>& partitioner() const noexcept { return partitioner_; }

  // Whether this is rank 0, the rank that prints and writes. True without a partitioner.
  bool is_primary() const noexcept { return !partitioner_ || partitioner_->rank() == 0; }
  // A copy, queued on the stream that both share.
  TrainState clone() const { return {State::clone(), *this}; }

  // The parameters, for evaluation: no gradient is tracked, except while value_and_grad calls a function of the state.
  // In a 16-bit precision they are copies, which each call queues anew.
  nn::Params params() const;

  // Calls f(params), or f(state) with the same params as state.params(). f returns the loss, an f32 scalar, or a pair
  // of the loss and something else. Queues the gradient of the loss into grads and returns what f returned. With a
  // partitioner, grads is the mean over the ranks, each weighted by its part of the batch. This holds for the part that
  // this rank updates; the rest is undefined.
  template <class F>
  auto value_and_grad(F&& f, std::source_location where = std::source_location::current()) {
    nn::Params params = differentiable_params();
    if constexpr (std::is_invocable_v<F, nn::Params&>) {
      return differentiated(std::forward<F>(f)(params), params, where);
    } else {
      const Differentiating scope(*this, params);  // the backward pass of nn::remat calls parts of f again
      return differentiated(std::forward<F>(f)(*this), params, where);
    }
  }

  // The same in `parts` calls of f(params, part), one after the other, each for a part of the batch. grads is the mean
  // of their gradients, and memory is needed for one part at a time. Returns what the calls returned, in order.
  //
  //   auto losses = state.value_and_grad(4, [&](auto& params, int part) {
  //     const giro::Batch rows = batch.slice(part, 4);
  //     return mean(softmax_cross_entropy(model(params, rows["image"]), rows["label"]));
  //   });
  //   state.apply_gradients();
  //   return giro::logs().add_metric("loss", mean(losses));
  //
  // Error(invalid_argument) for less than one part.
  template <class F>
  auto value_and_grad(int parts, F&& f, std::source_location where = std::source_location::current()) {
    expect_parts(parts, where);
    nn::Params params = differentiable_params();
    std::vector<decltype(f(params, 0))> results;
    for (int part = 0; part < parts; ++part) {
      results.push_back(differentiated(f(params, part), params, where, part, parts));
    }
    return results;
  }

  // Queues one update of params from grads, and step + 1. With f16, if a gradient is not finite, params and opt_state
  // stay as they are, and learning rate and bias correction do not count that step, as with flax's DynamicScale. All
  // ranks make the same decision.
  void apply_gradients(std::source_location where = std::source_location::current());

 private:
  TrainState(const nn::Layer& model, optim::Optimizer optimizer, const DeviceContext& context);
  TrainState(State leaves, const TrainState& other);
  // While it lives, params() returns the differentiable parameters.
  class Differentiating {
   public:
    Differentiating(TrainState& state, const nn::Params& params) : state_(state) { state.differentiated_ = &params; }
    ~Differentiating() { state_.differentiated_ = nullptr; }
    Differentiating(const Differentiating&) = delete;
    Differentiating& operator=(const Differentiating&) = delete;

   private:
    TrainState& state_;
  };
  nn::Params differentiable_params() const;
  static void expect_parts(int parts, std::source_location where);
  // The parameters as the model sees them. With `grads`, f32, they are differentiable.
  nn::Params params_in_precision(const Collection* grads) const;
  // Queues the gradient of the loss, which is `result` or its first element. Returns `result`.
  template <class R>
  R differentiated(R result, const nn::Params& params, std::source_location where, int part = 0, int parts = 1) const {
    if constexpr (std::is_convertible_v<R&, nn::Var>) {
      backward(result, params, where, part, parts);
    } else {
      backward(result.first, params, where, part, parts);
    }
    return result;
  }
  // The backward pass of one of `parts` losses; their mean is the whole loss.
  void backward(const nn::Var& loss, const nn::Params& params, std::source_location where, int part, int parts) const;

  // Empty tensors if losses are not scaled.
  optim::LossScale loss_scale() const;

  nn::Layer model_;
  optim::Optimizer optimizer_;
  std::shared_ptr<const Partitioner> partitioner_;
  Precision precision_ = Precision::f32;
  const nn::Params* differentiated_ = nullptr;
};

}  // namespace giro
