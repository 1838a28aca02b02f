#pragma once

#include <functional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/step/broadcasts.h>
#include <giro/loop/step/signature.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/error.h>

// Steps for which the program writes only the losses and the metrics. A strategy decides how they run.
namespace giro::managed {

// How a managed step runs. Both functions are part of the step: they queue work, and are recorded with the rest.
struct Strategy {
  bool recorded = true;                                                       // by jit, else eager
  bool data_parallel = false;                                                 // requires a state with a partitioner
  std::function<void(TrainState& state)> handle_grads = {};                   // before the update
  std::function<void(const TrainState& state, Logs& logs)> handle_logs = {};  // may change what the step logs
};

// "eager"; "jit"; "data_parallel", which is jit but rejects a state without a partitioner; "jit_donate" and
// "data_parallel_donate", aliases of the names without "_donate" for ported programs: here every update is in place.
// With any strategy, all ranks of a state with a partitioner train it. Error(not_found) naming the nearest strategy.
Strategy strategy(const std::string& name);
// Adds a strategy for all steps that are made from then on. Error(invalid_argument) for a name that is empty or taken.
void register_strategy(const std::string& name, Strategy strategy);

namespace detail {

// The sum of the entries of "losses". Error(invalid_argument) if there is none, or one is not on the device;
// Error(shape_mismatch) if one is not a scalar.
nn::Var total_loss(const Logs& logs, std::source_location where);

template <class T>
inline constexpr bool is_params = std::is_same_v<T, nn::Params>;
template <class T>
inline constexpr bool is_state = std::is_base_of_v<TrainState, T>;

// The first type that is a state.
template <class... Args>
struct StateOf : std::type_identity<TrainState> {};
template <class First, class... Rest>
struct StateOf<First, Rest...> : std::conditional_t<is_state<First>, std::type_identity<First>, StateOf<Rest...>> {};

// The type as StaticsOf should see it: params and states count as a Batch, so that they are not taken for statics.
template <class T>
using AsInput = std::conditional_t<is_params<T> || is_state<T>, Batch, T>;

// A step that calls f(params or state, batch, ...). With `trains` it also updates the state.
template <bool trains, class F, class... Args>
auto make_step(F f, const Strategy& strategy, std::source_location where, std::tuple<Args...>*) {
  constexpr bool writes = (trains || ... ||
                           (is_state<std::remove_cvref_t<Args>> && std::is_lvalue_reference_v<Args> &&
                            !std::is_const_v<std::remove_reference_t<Args>>));
  using Of = typename StateOf<std::remove_cvref_t<Args>...>::type;
  using S = std::conditional_t<writes, Of, const Of>;
  using Statics = typename giro::detail::StaticsOf<AsInput<std::remove_cvref_t<Args>>...>::type;
  static_assert((false || ... || (is_params<std::remove_cvref_t<Args>> || is_state<std::remove_cvref_t<Args>>)),
                "giro: a managed step must take const nn::Params& or the TrainState&");
  static_assert(giro::detail::ExpectNoneOfOneCall<Args...>::value);
  static_assert(
      (0 + ... + static_cast<int>(giro::detail::is_statics<AsInput<std::remove_cvref_t<Args>>>)) <= 1,
      "giro: a managed step can take only params, state, const Batch&, const Broadcasts& and one type of statics");
  constexpr bool uses_broadcasts = (false || ... || std::is_same_v<std::remove_cvref_t<Args>, Broadcasts>);
  // Captured by default, since a step that does not train needs no `where`, and clang says so.
  return Step<S, Statics>(
      [=, f = std::move(f)](S& state, const Batch& batch, const Broadcasts& broadcasts,
                            const Statics& statics) mutable {
        const auto call = [&] {
          nn::Params params = state.params();
          return Logs(f(giro::detail::pick<std::remove_cvref_t<Args>>(params, state, batch, broadcasts, statics)...));
        };
        if (strategy.data_parallel && !state.partitioner()) {
          throw Error(ErrorCode::invalid_argument,
                      "managed: the strategy is data_parallel, expected a state with a partitioner");
        }
        Logs logs;
        if constexpr (trains) {
          state.value_and_grad(
              [&](TrainState&) {
                logs = call();
                return total_loss(logs, where);
              },
              where);
          if (strategy.handle_grads) strategy.handle_grads(state);
          state.apply_gradients(where);
        } else {
          logs = call();
        }
        if (strategy.handle_logs) strategy.handle_logs(state, logs);
        return logs;
      },
      uses_broadcasts,
      strategy.recorded ? giro::detail::StepRecording::Mode::recorded : giro::detail::StepRecording::Mode::eager,
      where);
}

template <bool trains, class F>
auto make_step(F f, const Strategy& strategy, std::source_location where) {
  using Signature = giro::detail::Signature<F>;
  static_assert(Signature::known,
                "giro: a managed step must be a function with a single signature, without auto parameters");
  static_assert(std::is_same_v<std::remove_cvref_t<typename Signature::Return>, Logs>,
                "giro: a managed step must return giro::Logs: giro::logs().add_loss(\"loss\", loss)");
  return make_step<trains>(std::move(f), strategy, where, static_cast<typename Signature::Arguments*>(nullptr));
}

}  // namespace detail

// A step that trains: calls f, adds up the losses it logs, and updates the state by the gradient of their sum.
//
//   auto train_step = giro::managed::train_step([&](const nn::Params& params, const giro::Batch& batch) {
//     auto logits = model(params, batch["image"]);
//     return giro::logs()
//         .add_loss("loss", mean(softmax_cross_entropy(logits, batch["label"])), /*add_metric=*/true)
//         .add_metric("accuracy", accuracy(logits, batch["label"]));
//   });
//
// f takes any of const nn::Params&, the state (TrainState& or a derived class; gradients are with respect to its
// params()), const Batch&, const Broadcasts& and statics, in any order, like a step made by jit, and returns Logs. The
// losses are its entries of "losses": one or more f32 scalars computed on the device from the params. Everything it
// logs is logged, stateful metrics unchanged with any strategy. Errors: not_found (unknown strategy, naming the
// nearest); on the first call of the step, invalid_argument or shape_mismatch for losses that are missing, not on the
// device or not scalars.
template <class F>
auto train_step(F f, const std::string& strategy = "jit",
                std::source_location where = std::source_location::current()) {
  return detail::make_step<true>(std::move(f), managed::strategy(strategy), where);
}

// The same without losses, gradients and update: for evaluation, prediction and resets.
template <class F>
auto step(F f, const std::string& strategy = "jit", std::source_location where = std::source_location::current()) {
  return detail::make_step<false>(std::move(f), managed::strategy(strategy), where);
}

}  // namespace giro::managed
