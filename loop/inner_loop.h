#pragma once

#include <concepts>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <giro/loop/interrupt.h>
#include <giro/loop/log/aggregation.h>
#include <giro/loop/loop_error.h>
#include <giro/loop/loop_result.h>
#include <giro/loop/step/signature.h>
#include <giro/runtime/error.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

namespace giro {

struct InnerLoopOptions {
  bool output_state = false;         // whether the outer loop continues with the inner loop's final state
  Aggregation aggregation = "mean";  // of all records, each entry by its rule; "last": the last record only
};

namespace detail {

[[noreturn]] void reject_used_up_dataset(const std::string& inner_loop);
// "loss" -> "loss_valid".
Logs renamed(const Logs& logs, const std::string& name);

}  // namespace detail

// A loop as a callback of another loop; made by inner_loop.
template <class F>
class InnerLoop {
  using Signature = detail::Signature<F>;
  static_assert(Signature::known,
                "giro: an inner loop's function must have a single signature, without auto parameters");
  static_assert(std::tuple_size_v<typename Signature::Arguments> == 1,
                "giro: an inner loop's function must take the state and nothing else");
  using Argument = std::tuple_element_t<0, typename Signature::Arguments>;

 public:
  using S = std::remove_cvref_t<Argument>;

  InnerLoop(std::string name, F function, InnerLoopOptions options)
      : name_(std::move(name)), function_(std::move(function)), options_(std::move(options)) {
    if (!kIsConst && !kIsRestorable && !options_.output_state) {
      throw Error(
          ErrorCode::invalid_argument,
          "inner_loop: this state cannot be copied, expected a function that takes const State&, or output_state");
    }
  }

  // Promises that the function does not change the state, except for moving it in and out. The state is then not saved.
  InnerLoop& preserves_state() {
    preserves_state_ = true;
    return *this;
  }

  Logs operator()(S& state) {
    if (options_.output_state || kIsConst || preserves_state_) return run(state);
    if constexpr (std::copy_constructible<S>) {
      S copy = state;
      return run(copy);
    } else if constexpr (std::is_base_of_v<State, S>) {
      const Snapshot before(state, MemoryKind::device, Collections::all);
      const auto put_back = [&] {
        if (!state.moved_from()) before.write_back(state);  // a state that was moved away is lost
      };
      try {
        Logs logs = run(state);
        put_back();
        return logs;
      } catch (...) {
        try {
          put_back();
        } catch (...) {
          // A second failure usually comes from the same device and adds nothing.
        }
        throw;
      }
    } else {
      return run(state);
    }
  }

 private:
  static constexpr bool kIsConst = std::is_const_v<std::remove_reference_t<Argument>>;
  static constexpr bool kIsRestorable = std::copy_constructible<S> || std::is_base_of_v<State, S>;

  // Runs the function and replaces the state with the one it returns.
  Logs run(S& state) {
    try {
      auto result = call(state);
      using Returned = std::remove_cvref_t<decltype(get<0>(result))>;
      if constexpr (std::is_same_v<Returned, S> && std::is_move_assignable_v<S>) {
        if (!kIsConst || options_.output_state) state = std::move(get<0>(result));
      }
      if constexpr (requires { result.ended; }) {
        const bool ran = result.elapsed.steps > 0;
        if (!ran && has_run_ && result.ended == StopReason::dataset_ended) detail::reject_used_up_dataset(name_);
        has_run_ |= ran;
      }
      const Logs logs = interrupted(result) ? Logs() : aggregated(result);
      return name_.empty() ? logs : detail::renamed(logs, name_);
    } catch (const LoopError& error) {
      if constexpr (!kIsConst && std::is_move_assignable_v<S>) {
        if (S* const moved = error.state<S>()) state = std::move(*moved);
      }
      throw;
    }
  }

  auto call(S& state) {
    if constexpr (std::is_reference_v<Argument> || std::copy_constructible<S>) {
      return function_(state);
    } else {
      return function_(std::move(state));
    }
  }

  template <class R>
  Logs aggregated(const R& result) const {
    if constexpr (requires { result.outputs; }) {
      return aggregate(result.history, result.outputs, options_.aggregation);
    } else {
      return aggregate(get<1>(result), options_.aggregation);
    }
  }

  template <class R>
  static bool interrupted(const R& result) {
    if constexpr (requires { result.interrupted; })
      return result.interrupted != 0;
    else
      return detail::effective_signal() != 0;
  }

  std::string name_;
  F function_;
  InnerLoopOptions options_;
  bool preserves_state_ = false;
  bool has_run_ = false;  // at least one step
};

// A callback that runs an inner loop on the state of the outer loop. Logs one value for each entry of the inner loop's
// history (aggregate), as <entry>_<name>:
//
//   {giro::every(1'000), giro::inner_loop("valid", [&](giro::TrainState& state) {
//      return giro::loop(std::move(state), valid, {{giro::every(1), valid_step}});
//    })}
//
// The function takes the state as S&, const S& or S, and returns what a loop returns: a LoopResult, or a tuple of a
// state, a History and an Elapsed. It may move the state away and return it. Unless output_state is set, the outer loop
// continues with the state as it was: the function works on a copy. A State cannot be copied, so its leaves are saved
// and restored, and recordings stay valid. A function of const S& needs neither. A signal that ends the inner loop also
// ends the outer one, and the inner loop's logs are dropped. Errors: invalid_argument if the state can be neither
// copied nor saved, or if the dataset had batches before and has none now, like a range that can be traversed only
// once; whatever the function throws. The state is then restored, unless the function has moved it away and lost it.
template <class F>
InnerLoop<F> inner_loop(std::string name, F function, InnerLoopOptions options = {}) {
  return {std::move(name), std::move(function), std::move(options)};
}
// The same, with the entries' names unchanged.
template <class F>
InnerLoop<F> inner_loop(F function, InnerLoopOptions options = {}) {
  return {"", std::move(function), std::move(options)};
}

}  // namespace giro
