#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/kernels/nn/layer.h>
#include <giro/kernels/nn/part_calls.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/kernels/nn/scope.h>
#include <giro/kernels/optim/loss_scale.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/precision.h>
#include <giro/runtime/device_context.h>
#include <giro/runtime/state.h>
#include <giro/runtime/step_context.h>

namespace giro {

class Batch;
namespace optim {
class UpdatePlan;
}

struct TrainStateOptions {
  // The model's inputs: names, dtypes and shapes of a batch's features, batch axis included (Dataset::spec).
  std::vector<LeafSpec> inputs;
  std::uint64_t seed = 0;                                     // for the initial values and for the keys in the steps
  DeviceContext context = discover_devices().best();          // by default a new one for the best available device
  std::shared_ptr<const Partitioner> partitioner = {};        // if this process is one of several ranks
  Precision precision = Precision::f32;                       // that the model is computed in
  std::map<std::string, CollectionOptions> collections = {};  // how the model's own collections are kept, by name
};

// The training state of a model, on one device. Its tree:
//   params/...          f32, one buffer
//   grads/...           f32, like params; not saved. With f16 multiplied by loss_scale/scale
//   batch_stats/... or any other collection of variables that the model's layers have
//   opt_state/mu/...    f32, for the params that need it, and opt_state/nu/...: the optimizer's moments. With a
//                       partitioner that divides the params among the ranks, this rank's pieces of them (Leaf::piece)
//   ema/...             the average of params, with optim::ema
//   loss_scale/...      only with f16: scale, good_steps and skipped of optim::LossScale
//   step                i64 scalar: updates made or skipped
//   learning_rate       f32 scalar: of the latest update; not saved
//   learning_rate_scale f32 scalar, 1 at first: multiplies every learning rate
//   seed                i64 scalar
class TrainState : public State {
 public:
  // Calls the model once, with values that have no memory, to find its leaves, and draws their initial values from the
  // seed; they are the same on every device. The model is a layer, which gets the first input, or any function of
  // (nn::Scope, const Batch&) or of (nn::Scope, const nn::Var&...) with as many of the inputs, in order. With a
  // partitioner, each rank has such a state, which starts with rank 0's values.
  //
  //   auto state = giro::TrainState::create(model, giro::optim::adamw(1e-3), {.inputs = train_data.spec()});
  //
  // Errors: those of the model, and invalid_argument, device, communication; unsupported for a precision that the
  // device does not compute in.
  template <class Model>
  static TrainState create(const Model& model, optim::Optimizer optimizer, const TrainStateOptions& options) {
    std::optional<nn::Layer> layer;
    if constexpr (std::is_convertible_v<const Model&, nn::Layer>) layer = nn::Layer(model);
    return create_traced([&model](const nn::Params& params, const Features& inputs) { call(model, params, inputs); },
                         std::move(layer), std::move(optimizer), options);
  }

  // Error(invalid_argument) if it was not created for a layer.
  const nn::Layer& model() const;
  const optim::Optimizer& optimizer() const noexcept { return optimizer_; }
  Precision precision() const noexcept { return precision_; }
  // Null if this process trains alone.
  const std::shared_ptr<const Partitioner>& partitioner() const noexcept { return partitioner_; }

  // Whether this is rank 0, the rank that prints and writes. True without a partitioner.
  bool is_primary() const noexcept { return !partitioner_ || partitioner_->rank() == 0; }
  // A copy, queued on the stream that both share.
  TrainState clone() const { return {State::clone(), *this}; }

  // The parameters and variables, by default for evaluation: no gradient is tracked, except while value_and_grad calls
  // a function of the state. In a 16-bit precision they are copies, queued by each call.
  nn::Params params() const;
  nn::Params params(nn::Mode mode) const;  // never tracks a gradient

  // The same with the averages that optim::ema keeps in place of the parameters. Errors: not_found if there are none.
  nn::Params ema_params(nn::Mode mode = nn::Mode::eval) const;
  // A state with copies of just these leaves: params, f32, with the averages, and the model's variables.
  //
  //   giro::save("averaged.safetensors", state.averaged());
  //
  // With a partitioner, all ranks call it. Errors as above.
  State averaged() const;

  // Resets the leaves of params, or of one of the model's own collections, to their initial values: with "cache" or
  // "carry", sequences start over. Errors: not_found for another collection; invalid_argument in a recorded step,
  // unless all elements of a leaf have the same initial value.
  void reset(const std::string& collection);

  // Calls f(params) for training, or f(state) with the same params as state.params(). f returns the loss, an f32
  // scalar, or a pair of the loss and something else. Queues the gradient of the loss into grads, and the variables
  // that the model has set into their leaves. Returns what f returned. With a partitioner, grads is the mean over the
  // ranks, each weighted by its part of the batch. This holds for the part that this rank updates; the rest is
  // undefined. A call stores, and numbers the step's random draws, so it needs a statement of its own: of two in one
  // expression, the compiler chooses the order.
  template <class F>
  auto value_and_grad(F&& f, std::source_location where = std::source_location::current()) {
    const detail::ContextUse use(context());
    nn::Params params = differentiable_params();
    const detail::StepScope loss_scope(partitioner_, 1);
    if constexpr (std::is_invocable_v<F, nn::Params&>) {
      return differentiated(std::forward<F>(f)(params), params, where);
    } else {
      // Until the end, as the backward pass of nn::remat calls parts of f again.
      differentiated_ = &params;
      const struct End {
        TrainState& state;
        ~End() { state.differentiated_ = nullptr; }
      } end{*this};
      return differentiated(std::forward<F>(f)(*this), params, where);
    }
  }

  // Gradient accumulation: the same in `parts` calls of f(params, part), one after the other, each for an equal part of
  // the batch. grads is the mean of their gradients, and memory is needed for one part at a time. So each loss is a
  // mean over its part's rows; a weighted_mean takes the weights of the whole batch, too. Returns the calls' results,
  // in order. What a call computes is of its part alone: metrics are made there, and returned beside the loss.
  //
  //   auto losses = state.value_and_grad(4, [&](auto& params, int part) {
  //     const giro::Batch rows = batch.slice(part, 4);
  //     return mean(softmax_cross_entropy(model(params, rows["image"]), rows["label"]));
  //   });
  //   state.apply_gradients();
  //   return giro::logs().add_metric("loss", mean(losses));
  //
  // Error(invalid_argument) for fewer than one part; for a loss that is a sum over rows; and, when it is used, for a
  // value of one part that outlives the calls while those of the other parts do not.
  template <class F>
  auto value_and_grad(int parts, F&& f, std::source_location where = std::source_location::current()) {
    const detail::ContextUse use(context());
    expect_parts(parts, where);
    nn::ScopeValues values = values_in_precision(&collection("grads"), nn::Mode::train);
    std::vector<decltype(f(std::declval<nn::Params&>(), 0))> results;
    const std::int64_t first_draw = detail::StepScope::current().take_draws(parts);
    nn::PartCalls calls(partitioner_, parts);
    for (int part = 0; part < parts; ++part) {
      values.draw = first_draw + part;
      values.rows = detail::StepScope::current().rows / parts;
      nn::Params params(values);
      calls.next();
      results.push_back(differentiated(f(params, part), params, where, part, parts));
      nn::PartCalls::returned(loss_of(results.back()));
      if constexpr (requires { nn::PartCalls::returned(results.back().second); }) {
        nn::PartCalls::returned(results.back().second);
      }
    }
    return results;
  }

  // For programs with their own update: a pair of the result of f(params), which is as for value_and_grad, and the
  // gradients of the loss, by the parameters' names below params. grads stays as it is. With a partitioner, each
  // gradient is the mean over the ranks. Frozen parameters have none. The loss cannot be differentiated again: see
  // nn::gradients.
  //
  //   auto [loss, grads] = state.gradients([&](auto& params) { return loss_of(model(params, batch["x"])); });
  template <class F>
  auto gradients(F&& f, std::source_location where = std::source_location::current()) {
    const detail::ContextUse use(context());
    nn::Params params = differentiable_params();
    const detail::StepScope loss_scope(partitioner_, 1);
    auto result = std::forward<F>(f)(params);
    const nn::Var loss = loss_of(result);
    return std::pair{std::move(result), gradients_of(loss, params, where)};
  }

  // The global L2 norm of grads, an f32 scalar, without the loss scale.
  nn::Var gradient_norm() const;
  // Multiplies every learning rate from the next update on. Call it between steps, on all ranks.
  // Error(invalid_argument) unless it is finite and >= 0.
  void set_learning_rate_scale(double scale);

  // Queues one update of params from grads, and step + 1. With f16, if a gradient is not finite, params and opt_state
  // stay as they are, and the learning rate and bias correction do not count that step, as with flax's DynamicScale.
  // All ranks make the same decision.
  void apply_gradients(std::source_location where = std::source_location::current());

 private:
  using Features = std::vector<std::pair<std::string, Tensor>>;
  TrainState(std::optional<nn::Layer> model, optim::Optimizer optimizer, const DeviceContext& context);
  TrainState(State leaves, const TrainState& other);
  static TrainState create_traced(const std::function<void(const nn::Params&, const Features&)>& model,
                                  std::optional<nn::Layer> layer, optim::Optimizer optimizer,
                                  const TrainStateOptions& options);
  // Calls a model with the inputs that it takes. Batch is a class of loop/, which is complete wherever a model takes
  // one.
  template <class Model, class B = Batch>
  static void call(const Model& model, const nn::Params& params, const Features& inputs) {
    if constexpr (std::is_convertible_v<const Model&, nn::Layer>) {
      const nn::Layer layer = model;
      if (inputs.size() < layer.inputs()) reject_inputs(inputs.size(), layer.inputs());
      std::vector<nn::Var> values;
      for (std::size_t i = 0; i < layer.inputs(); ++i) values.emplace_back(inputs[i].second, params.stream());
      layer(params, values, std::source_location());
    } else {
      nn::Scope scope = params;
      model(scope, B(inputs, params.stream()));
    }
  }
  [[noreturn]] static void reject_inputs(std::size_t found, std::size_t expected);
  nn::Params differentiable_params() const {
    nn::ScopeValues values = values_in_precision(&collection("grads"), nn::Mode::train);
    values.draw = detail::StepScope::current().take_draws(1);
    return nn::Params(std::move(values));
  }
  static void expect_parts(int parts, std::source_location where);
  // A result of the user's function is the loss, or a pair of the loss and something else.
  template <class R>
  static const nn::Var& loss_of(const R& result) {
    if constexpr (std::is_convertible_v<const R&, nn::Var>) {
      return result;
    } else {
      return result.first;
    }
  }
  std::map<std::string, nn::Var> gradients_of(const nn::Var& loss, const nn::Params& params,
                                              std::source_location where) const;
  // The leaves as the model sees them, by name. With `grads`, f32, those that are not frozen are differentiable. A
  // collection of another state needs an owner, which keeps it alive.
  std::map<std::string, nn::Var> leaves_in_precision(const Collection& leaves, const Collection* grads = nullptr,
                                                     const std::shared_ptr<const void>& owner = nullptr) const;
  // The leaves of params as above, and everything else that a scope has.
  nn::ScopeValues values_in_precision(const Collection* grads, nn::Mode mode) const;
  // The averages of all parameters. If ranks hold shards of them, these are gathered into a collection of `whole`.
  const Collection& averages(State& whole) const;
  // Queues the gradient of the loss, which is `result` or its first element. Returns `result`.
  template <class R>
  R differentiated(R result, const nn::Params& params, std::source_location where, int part = 0, int parts = 1) const {
    backward(loss_of(result), params, where, part, parts);
    return result;
  }
  // The backward pass of one of `parts` losses; their mean is the whole loss.
  void backward(const nn::Var& loss, const nn::Params& params, std::source_location where, int part, int parts) const;

  // Empty tensors if losses are not scaled.
  optim::LossScale loss_scale() const;

  std::optional<nn::Layer> model_;
  std::shared_ptr<nn::CallOrder> order_;  // of the model's calls
  std::vector<std::string> variables_;    // the names of the model's own collections
  // Functions that set these and params to their initial values.
  std::map<std::string, std::function<void(const Collection&, const Stream&)>> initial_;
  optim::Optimizer optimizer_;
  std::shared_ptr<const optim::UpdatePlan> plan_;
  std::shared_ptr<const Partitioner> partitioner_;
  Precision precision_ = Precision::f32;
  const nn::Params* differentiated_ = nullptr;  // what params() returns within value_and_grad
};

}  // namespace giro
