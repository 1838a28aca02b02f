#pragma once

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <giro/loop/elapsed.h>
#include <giro/loop/history.h>
#include <giro/loop/logs.h>
#include <giro/loop/signature.h>
#include <giro/loop/step.h>

namespace giro {

// What a callback may see and change while a loop runs.
template <class S, class B>
struct LoopState {
  S& state;
  const B& batch;
  const History& history;  // of the steps before this one
  Elapsed elapsed;         // at the beginning of this step
  Logs logs;               // of this step so far
  bool stop_iteration = false;
};

namespace detail {

template <class T>
struct IsStep : std::false_type {};
template <class S>
struct IsStep<Step<S>> : std::true_type {};

template <class T, class S>
inline constexpr bool is_or_bases = std::is_same_v<T, S> || std::is_base_of_v<T, S>;

template <class Arg, class S, class B>
decltype(auto) loop_argument(LoopState<S, B>& loop) {
  using T = std::remove_cvref_t<Arg>;
  constexpr bool mutable_reference = std::is_lvalue_reference_v<Arg> && !std::is_const_v<std::remove_reference_t<Arg>>;
  if constexpr (std::is_same_v<T, Elapsed>) {
    return static_cast<const Elapsed&>(loop.elapsed);
  } else if constexpr (std::is_same_v<T, Logs>) {
    return static_cast<const Logs&>(loop.logs);
  } else if constexpr (std::is_same_v<T, LoopState<S, B>>) {
    return (loop);
  } else if constexpr (is_or_bases<T, S> && (mutable_reference || !std::is_same_v<T, B>)) {
    return static_cast<T&>(loop.state);
  } else if constexpr (is_or_bases<T, B>) {
    return static_cast<const T&>(loop.batch);
  } else {
    static_assert(std::is_void_v<Arg>, "giro: a loop can give a callback its State&, const Batch&, const Elapsed&, "
                                       "const Logs& and LoopState&, and nothing else");
  }
}

template <class Arg>
inline constexpr bool is_observed =
    std::is_same_v<std::remove_cvref_t<Arg>, Elapsed> || std::is_same_v<std::remove_cvref_t<Arg>, Logs>;

template <class R, class S, class B>
void take_result(LoopState<S, B>& loop, R&& result) {
  using T = std::remove_cvref_t<R>;
  if constexpr (std::is_same_v<T, Logs>) {
    loop.logs.merge(result);
  } else if constexpr (std::is_same_v<T, S>) {
    loop.state = std::forward<R>(result);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    static_assert(std::tuple_size_v<T> == 2, "giro: a callback returns nothing, Logs, the state, or both as (Logs, state)");
    take_result(loop, std::get<0>(std::forward<R>(result)));
    take_result(loop, std::get<1>(std::forward<R>(result)));
  } else {
    static_assert(std::is_void_v<R>, "giro: a callback returns nothing, Logs, the state, or both as (Logs, state)");
  }
}

}  // namespace detail

// A callable that a loop of state S and batch B runs. The types of its parameters, any subset in any order, say what it
// needs; the signature alone decides what the loop does for it:
//   device step   made by jit or eager: queued, never waited for
//   observer      nothing but const Elapsed& and const Logs&, and no result: runs when the step's logs have reached the
//                 host, in step order, with all that the step logged; never stalls the device
//   barrier       everything else: what came before is finished and observed first
template <class S, class B>
class Callback {
 public:
  enum class Kind { device_step, observer, barrier };

  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Callback>)
  Callback(F callable) {
    using Traits = detail::Signature<F>;
    static_assert(Traits::known, "giro: a callback has one signature, without auto parameters");
    bind(std::move(callable), static_cast<typename Traits::Arguments*>(nullptr),
         static_cast<std::type_identity<typename Traits::Return>*>(nullptr));
  }

  Kind kind() const noexcept { return kind_; }
  // A device step or a barrier.
  void run(LoopState<S, B>& loop) const { run_(loop); }
  void observe(const Elapsed& elapsed, const Logs& logs) const { observe_(elapsed, logs); }

 private:
  template <class F, class... Args, class R>
  void bind(F callable, std::tuple<Args...>*, std::type_identity<R>*) {
    if constexpr (std::is_void_v<R> && sizeof...(Args) > 0 && (detail::is_observed<Args> && ...)) {
      kind_ = Kind::observer;
      observe_ = [callable = std::move(callable)](const Elapsed& elapsed, const Logs& logs) mutable {
        const auto pick = [&]<class Arg>(std::type_identity<Arg>) -> decltype(auto) {
          if constexpr (std::is_same_v<std::remove_cvref_t<Arg>, Elapsed>) return (elapsed);
          else return (logs);
        };
        callable(pick(std::type_identity<Args>{})...);
      };
    } else {
      kind_ = detail::IsStep<F>::value ? Kind::device_step : Kind::barrier;
      run_ = [callable = std::move(callable)](LoopState<S, B>& loop) mutable {
        if constexpr (std::is_void_v<R>) {
          callable(detail::loop_argument<Args>(loop)...);
        } else {
          detail::take_result(loop, callable(detail::loop_argument<Args>(loop)...));
        }
      };
    }
  }

  Kind kind_ = Kind::barrier;
  std::function<void(LoopState<S, B>&)> run_;
  std::function<void(const Elapsed&, const Logs&)> observe_;
};

}  // namespace giro
