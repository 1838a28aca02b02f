#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#include <giro/loop/data/batch.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/step/broadcasts.h>
#include <giro/loop/step/signature.h>
#include <giro/loop/step/step_recording.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/not_copied.h>
#include <giro/runtime/state.h>

namespace giro {

template <class S, class B>
class LoopState;

namespace detail {

// The recordings of one step, for all the states it is called with. May be used by several threads, each with its own
// state.
class StepEngine : NotCopied {
 public:
  // How many recordings are kept; a new one replaces the least recently used.
  static constexpr std::size_t kMaxRecordings = 32;

  // `where`: the line of the user's program that made the step; it names the step.
  StepEngine(StepRecording::Mode mode, std::source_location where);

  // The recording for a call; made if there is none. `latest` is the one that the caller used last, or null.
  std::shared_ptr<StepRecording> find(const StepCall& call, const StepBody& body,
                                      std::shared_ptr<StepRecording> latest);
  // Makes one call.
  Logs call(const StepCall& call, const StepBody& body);
  std::size_t num_recordings() const;

 private:
  struct Recordings;
  std::shared_ptr<Recordings> recordings_;
};

struct NoStatics {
  friend bool operator==(const NoStatics&, const NoStatics&) = default;
};

}  // namespace detail

// A step over state and batch that jit or eager makes from the user's function: Step<TrainState>, or Step<const
// TrainState> from a function that takes the state as const TrainState&. It runs on the state's device without waiting
// for it. The scalars in its logs arrive on the host when the device has computed them. A handle; copies share
// recordings.
template <class S, class Statics = detail::NoStatics>
class Step {
 public:
  using Function = std::function<Logs(S& state, const Batch& batch, const Broadcasts&, const Statics&)>;

  Step(Function function, bool uses_broadcasts, detail::StepRecording::Mode mode, std::source_location where)
      : function_(std::make_shared<Function>(std::move(function))),
        engine_(std::make_shared<detail::StepEngine>(mode, where)),
        where_(where),
        uses_broadcasts_(uses_broadcasts) {}
  // A step that leaves its state as it is, as one that may change it. They share recordings.
  template <class Constant>
    requires(std::is_same_v<Constant, const S> && !std::is_const_v<S>)
  Step(const Step<Constant, Statics>& step)
      : function_(std::make_shared<Function>(
            [f = step.function_](S& state, const Batch& batch, const Broadcasts& broadcasts, const Statics& statics) {
              return (*f)(state, batch, broadcasts, statics);
            })),
        engine_(step.engine_),
        where_(step.where_),
        uses_broadcasts_(step.uses_broadcasts_),
        statics_(step.statics_) {}

  // Errors: those of the ops, when the step is first recorded for a state and the shapes of a batch; device_mismatch
  // for a batch on another device than the state; invalid_argument for a state that was moved from, for a step that
  // calls itself, and while another thread uses the state's context; communication if the state is one of several ranks
  // of which one computes or logs something else than rank 0, which they compare in the first call. After an error the
  // next call records the step again.
  Logs operator()(S& state, const Batch& batch, const Broadcasts& broadcasts = {}) const {
    return with_body(state,
                     [&](const detail::StepBody& body) { return engine_->call(call(state, batch, broadcasts), body); });
  }
  Logs operator()(S& state, const Batch& batch, const Broadcasts& broadcasts, const Statics& statics) const {
    return with(statics)(state, batch, broadcasts);
  }

  // This step with other statics, sharing the recordings: each value of the statics has its own.
  Step with(const Statics& statics) const {
    Step step = *this;
    step.statics_ = statics;
    return step;
  }

  // What a call would do, op by op, for inspection (Program::text). The call is recorded for this, but not run. It
  // names the state's memory by its leaves. With several ranks, each has to call it. Errors: those of a call.
  Program program(S& state, const Batch& batch, const Broadcasts& broadcasts = {}) const {
    return inspect(detail::StepRecording::program_of, state, batch, broadcasts);
  }
  // The device memory that a call needs. The call is recorded for this, but not run, and its memory is freed. With
  // several ranks, each has to call it. Errors: those of a call; also out_of_memory if that much is not available.
  StepMemory memory(S& state, const Batch& batch, const Broadcasts& broadcasts = {}) const {
    return inspect(detail::StepRecording::memory_of, state, batch, broadcasts);
  }
  // The same as program, with the time of each op and the least time it could take (Program::Times). For this the step
  // runs many times, and then the state is restored: training continues with the same bits. Waits for the device. With
  // several ranks, each has to call it. Errors: those of a call, and out_of_memory for a copy of the state.
  Program profile(S& state, const Batch& batch, const Broadcasts& broadcasts = {}) const {
    return inspect(detail::StepRecording::profile_of, state, batch, broadcasts);
  }

  // The number of recordings, at most the 32 used last: one for each state, each set of shapes and broadcast names, and
  // each value of the statics.
  std::size_t num_recordings() const { return engine_->num_recordings(); }

  // For the loop, which launches many calls at once: the recording for a call. `latest` is the one it used last.
  std::shared_ptr<detail::StepRecording> find(S& state, const Batch& batch, const Broadcasts& broadcasts,
                                              std::shared_ptr<detail::StepRecording> latest) const {
    return with_body(state, [&](const detail::StepBody& body) {
      return engine_->find(call(state, batch, broadcasts), body, std::move(latest));
    });
  }
  detail::StepCall call(const S& state, const Batch& batch, const Broadcasts& broadcasts) const {
    detail::StepCall call{state, batch, broadcasts, statics_view()};
    if constexpr (requires { state.partitioner(); }) call.partitioner = state.partitioner().get();
    return call;
  }
  bool uses_broadcasts() const noexcept { return uses_broadcasts_; }
  // Whether the function takes a state that it may change.
  static constexpr bool changes_state() noexcept { return !std::is_const_v<S>; }

 private:
  template <class, class>
  friend class Step;
  template <class F>
  auto inspect(F&& of_call, S& state, const Batch& batch, const Broadcasts& broadcasts) const {
    const detail::ContextUse use(state.context());
    return with_body(
        state, [&](const detail::StepBody& body) { return of_call(call(state, batch, broadcasts), body, where_); });
  }
  // This lambda is small enough for std::function to hold it without an allocation.
  template <class F>
  auto with_body(S& state, F&& f) const {
    const std::pair<const Step*, S*> bound{this, &state};
    return f([&bound](const Batch& on_device, const Broadcasts& values) {
      return (*bound.first->function_)(*bound.second, on_device, values, bound.first->statics_);
    });
  }
  detail::StaticsView statics_view() const {
    return {
        &statics_,
        [](const void* a, const void* b) { return *static_cast<const Statics*>(a) == *static_cast<const Statics*>(b); },
        [](const void* value) -> std::shared_ptr<const void> {
          return std::make_shared<const Statics>(*static_cast<const Statics*>(value));
        }};
  }

  detail::Handle<Function> function_;
  detail::Handle<detail::StepEngine> engine_;
  std::source_location where_;
  bool uses_broadcasts_;
  [[no_unique_address]] Statics statics_{};
};

namespace detail {

// Whether a step that takes these would keep what they were in its first call.
template <class T>
inline constexpr bool is_of_one_call = std::is_same_v<T, Elapsed> || std::is_same_v<T, Logs>;
template <class S, class B>
inline constexpr bool is_of_one_call<LoopState<S, B>> = true;
template <class... Args>
struct ExpectNoneOfOneCall {
  static_assert(!(false || ... || is_of_one_call<std::remove_cvref_t<Args>>),
                "giro: a step cannot take Elapsed, Logs or LoopState, since its recording is used for all calls: take "
                "const Broadcasts& for what changes from call to call, such as broadcasts[\"steps\"]");
  static constexpr bool value = true;
};

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

// The first of these arguments that is an `Arg`, which a state may derive from; a step's statics come last.
template <class Arg, class First, class... Rest>
auto& pick(First& first, Rest&... rest) {
  if constexpr (sizeof...(Rest) == 0 || std::is_same_v<Arg, std::remove_const_t<First>> ||
                (std::is_base_of_v<State, Arg> && std::is_base_of_v<Arg, std::remove_const_t<First>>)) {
    return first;
  } else {
    return pick<Arg>(rest...);
  }
}

template <class R, class F, class First, class... Rest>
auto make_step(F function, StepRecording::Mode mode, std::source_location where, std::tuple<First, Rest...>*) {
  using S = std::remove_reference_t<First>;
  static_assert(std::is_base_of_v<State, S> && std::is_reference_v<First>,
                "giro: the first parameter of a step must be a reference to State or to a class derived from it");
  static_assert(
      std::is_same_v<std::remove_cvref_t<R>, Logs>,
      "giro: a step must return giro::Logs: giro::logs().add_metric(\"loss\", loss), or giro::Logs() for none");
  static_assert(ExpectNoneOfOneCall<Rest...>::value);
  static_assert((0 + ... + static_cast<int>(is_statics<std::remove_cvref_t<Rest>>)) <= 1,
                "giro: after its state a step can take only const Batch&, const Broadcasts& and one type of statics");
  static_assert(
      (true && ... && (!std::is_lvalue_reference_v<Rest> || std::is_const_v<std::remove_reference_t<Rest>>)),
      "giro: after its state a step must take const references: const Batch&, const Broadcasts&, const T& of statics");
  using Statics = typename StaticsOf<Rest...>::type;
  static_assert(std::equality_comparable<Statics> && std::default_initializable<Statics> && std::copyable<Statics>,
                "giro: a step's statics must be default-constructible, copyable and comparable with ==");
  constexpr bool uses_broadcasts = (false || ... || std::is_same_v<std::remove_cvref_t<Rest>, Broadcasts>);
  return Step<S, Statics>(
      [function = std::move(function)](S& state, const Batch& batch, const Broadcasts& broadcasts,
                                       const Statics& statics) mutable {
        return function(state, pick<std::remove_cvref_t<Rest>>(batch, broadcasts, statics)...);
      },
      uses_broadcasts, mode, where);
}

template <class F>
auto make_step(F function, StepRecording::Mode mode, std::source_location where) {
  using Traits = Signature<F>;
  static_assert(Traits::known,
                "giro: a step must be a function of (State&, const Batch&, ...) with a single signature, without auto");
  if constexpr (Traits::known) {
    return make_step<typename Traits::Return>(std::move(function), mode, where,
                                              static_cast<typename Traits::Arguments*>(nullptr));
  } else {
    return Step<State>(nullptr, false, mode, where);  // so that the compiler has no more errors to show
  }
}

}  // namespace detail

// Records `function(S& state, const Batch& batch, ...) -> Logs` once for each state, set of batch shapes and statics,
// and replays it from then on: a CUDA graph, or a list of calls on the CPU. The function runs on the host only while it
// is recorded: anything it does there other than queueing work is not repeated, and host numbers it logs do not change.
// Values are not computed yet while it runs, and data() of one is an Error. Custom work goes into nn::call, submit or
// onto cuda_stream. After the state the function may take, in any order,
//   const Batch&
//   const Broadcasts&   values that change from call to call without another recording; in a loop: Elapsed's
//   const T&            statics, of any type with ==, copies and a default: each value has its own recording
// Programs and errors name the step by the line that made it, `where`.
template <class F>
auto jit(F function, std::source_location where = std::source_location::current()) {
  return detail::make_step(std::move(function), detail::StepRecording::Mode::recorded, where);
}

// The same, but the function runs at each call: slower, with the same results, bit for bit.
template <class F>
auto eager(F function, std::source_location where = std::source_location::current()) {
  return detail::make_step(std::move(function), detail::StepRecording::Mode::eager, where);
}

}  // namespace giro
