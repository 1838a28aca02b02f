#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/data/batch.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/step/broadcasts.h>
#include <giro/loop/step/signature.h>
#include <giro/runtime/state.h>

namespace giro {

namespace detail {

// Host-side values that select a recording, whatever their type is.
struct StaticsView {
  const void* value;
  bool (*equal)(const void*, const void*);
  std::shared_ptr<const void> (*copy)(const void*);
};

// What a step does whatever its state's type is: brings batch and broadcasts to the device, records or runs the body,
// and sends the scalars that were logged on their way to the host.
class StepEngine {
 public:
  // Runs the user's function on tensors that lie on the state's device.
  using Body = std::function<Logs(const Batch&, const Broadcasts&)>;
  struct Call {
    const State& state;
    const Batch& batch;
    const Broadcasts& broadcasts;
    StaticsView statics;
  };

  enum class Mode { recorded, eager };
  explicit StepEngine(Mode mode);
  ~StepEngine();

  // One step, which launch() may have to be called for: replays that go on where the one before has left off are
  // gathered, to be launched as one.
  Logs enqueue(const Call& call, const Body& body);
  void launch();
  std::size_t num_recordings() const noexcept { return mode_ == Mode::recorded ? variants_.size() : 0; }

 private:
  struct Variant;
  Variant& variant_for(const Call& call, const Body& body);
  Logs run(Variant& variant, const Call& call, const Body& body);
  void forget(const Variant* variant);

  Mode mode_;
  std::vector<std::unique_ptr<Variant>> variants_;
  Variant* waiting_ = nullptr;  // whose replays are to be launched, and
  std::int64_t replays_ = 0;    // how many; they gather batches up to
  std::int64_t position_ = 0;
};

struct NoStatics {
  friend bool operator==(const NoStatics&, const NoStatics&) = default;
};

}  // namespace detail

// A step over state and batch that runs on the state's device without waiting for it: what jit and eager make of the
// user's function. Its logs' scalars arrive on the host when the device gets there. A handle; copies share recordings.
template <class S, class Statics = detail::NoStatics>
class Step {
 public:
  using Function = std::function<Logs(S& state, const Batch& batch, const Broadcasts&, const Statics&)>;

  Step(Function function, bool uses_broadcasts, bool changes_state, detail::StepEngine::Mode mode)
      : function_(std::make_shared<Function>(std::move(function))),
        engine_(std::make_shared<detail::StepEngine>(mode)),
        uses_broadcasts_(uses_broadcasts),
        changes_state_(changes_state) {}

  // Errors: those of the ops, when the step is first recorded for a state and a batch's shapes; device_mismatch for a
  // batch that lies on another device than the state. After an error the step is recorded anew when it is next called.
  Logs operator()(S& state, const Batch& batch, const Broadcasts& broadcasts = {}) const {
    Logs logs = enqueue(state, batch, broadcasts);
    launch();
    return logs;
  }
  Logs operator()(S& state, const Batch& batch, const Broadcasts& broadcasts, const Statics& statics) const {
    return with(statics)(state, batch, broadcasts);
  }

  // This step for other statics, with the same recordings: each value that was seen has its own.
  Step with(const Statics& statics) const {
    Step step = *this;
    step.statics_ = statics;
    return step;
  }

  // How often the function was recorded: once for each state, each set of shapes and broadcasts' names, and each value
  // of the statics.
  std::size_t num_recordings() const noexcept { return engine_->num_recordings(); }

  // For the loop: a step that may be held back until launch() is called, so that the device can be given many at once.
  Logs enqueue(S& state, const Batch& batch, const Broadcasts& broadcasts) const {
    const std::pair<const Step*, S*> bound{this, &state};
    return engine_->enqueue({state, batch, broadcasts, statics_view()},
                            [&bound](const Batch& on_device, const Broadcasts& values) {
                              return (*bound.first->function_)(*bound.second, on_device, values, bound.first->statics_);
                            });
  }
  void launch() const { engine_->launch(); }
  bool uses_broadcasts() const noexcept { return uses_broadcasts_; }
  // Whether the function takes the state as S&, not as const S&.
  bool changes_state() const noexcept { return changes_state_; }

 private:
  detail::StaticsView statics_view() const {
    return {
        &statics_,
        [](const void* a, const void* b) { return *static_cast<const Statics*>(a) == *static_cast<const Statics*>(b); },
        [](const void* value) -> std::shared_ptr<const void> {
          return std::make_shared<const Statics>(*static_cast<const Statics*>(value));
        }};
  }

  std::shared_ptr<Function> function_;
  std::shared_ptr<detail::StepEngine> engine_;
  bool uses_broadcasts_;
  bool changes_state_;
  [[no_unique_address]] Statics statics_{};
};

namespace detail {

template <class T>
inline constexpr bool is_statics = !std::is_same_v<T, Batch> && !std::is_same_v<T, Broadcasts>;

// The type of the one parameter that is neither batch nor broadcasts.
template <class... Rest>
struct StaticsOf {
  using type = NoStatics;
};
template <class First, class... Rest>
struct StaticsOf<First, Rest...>
    : std::conditional_t<is_statics<std::remove_cvref_t<First>>, std::type_identity<std::remove_cvref_t<First>>,
                         StaticsOf<Rest...>> {};

template <class F, class First, class... Rest>
auto make_step(F function, StepEngine::Mode mode, std::tuple<First, Rest...>*) {
  using S = std::remove_cvref_t<First>;
  static_assert(std::is_base_of_v<State, S> && std::is_reference_v<First>,
                "giro: the first parameter of a step is a reference to State or to a class derived from it");
  static_assert((0 + ... + static_cast<int>(is_statics<std::remove_cvref_t<Rest>>)) <= 1,
                "giro: behind its state a step takes const Batch&, const Broadcasts& and one type of statics");
  using Statics = typename StaticsOf<Rest...>::type;
  static_assert(std::equality_comparable<Statics> && std::default_initializable<Statics> && std::copyable<Statics>,
                "giro: a step's statics can be default-constructed, copied and compared by ==");
  constexpr bool uses_broadcasts = (false || ... || std::is_same_v<std::remove_cvref_t<Rest>, Broadcasts>);
  return Step<S, Statics>(
      [function = std::move(function)](S& state, const Batch& batch, const Broadcasts& broadcasts,
                                       const Statics& statics) mutable {
        const auto pick = [&]<class Arg>(std::type_identity<Arg>) -> const auto& {
          if constexpr (std::is_same_v<Arg, Batch>)
            return batch;
          else if constexpr (std::is_same_v<Arg, Broadcasts>)
            return broadcasts;
          else
            return statics;
        };
        return function(state, pick(std::type_identity<std::remove_cvref_t<Rest>>{})...);
      },
      uses_broadcasts, !std::is_const_v<std::remove_reference_t<First>>, mode);
}

template <class F>
auto make_step(F function, StepEngine::Mode mode) {
  using Traits = Signature<F>;
  static_assert(Traits::known,
                "giro: a step is a function of (State&, const Batch&, ...) with one signature, without auto");
  return make_step(std::move(function), mode, static_cast<typename Traits::Arguments*>(nullptr));
}

}  // namespace detail

// Records `function(S& state, const Batch& batch, ...) -> Logs` once for each state, set of batch shapes and statics,
// and replays it from then on: a CUDA graph, or a list of calls on the CPU. The function runs on the host while it is
// recorded only: whatever it does there besides queueing work is not repeated, and numbers it logs from the host stay
// what they were. Values are not there yet, and data() of one is an Error; work of one's own goes into nn::call, submit
// or onto cuda_stream. Behind the state it may take, in any order,
//   const Batch&
//   const Broadcasts&   values that change from call to call without another recording; in a loop: Elapsed's
//   const T&            statics, of any type with ==, copies and a default: each value has a recording of its own
template <class F>
auto jit(F function) {
  return detail::make_step(std::move(function), detail::StepEngine::Mode::recorded);
}

// The same, run anew each time: slower, with the same results to the bit.
template <class F>
auto eager(F function) {
  return detail::make_step(std::move(function), detail::StepEngine::Mode::eager);
}

}  // namespace giro
