#pragma once

// Calls a callback with the arguments its signature asks for.

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <giro/loop/log/logs.h>
#include <giro/loop/loop_state.h>
#include <giro/loop/step/signature.h>
#include <giro/loop/step/step.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

namespace detail {

// Whether T is made from a class template, as in is_made_from<Step, T>.
template <template <class...> class Template, class T>
inline constexpr bool is_made_from = false;
template <template <class...> class Template, class... Args>
inline constexpr bool is_made_from<Template, Template<Args...>> = true;

template <class T, class S>
inline constexpr bool is_or_bases = std::is_same_v<T, S> || std::is_base_of_v<T, S>;

template <class Arg, class S, class B>
decltype(auto) loop_argument(LoopState<S, B>& loop) {
  using T = std::remove_cvref_t<Arg>;
  constexpr bool mutable_reference = std::is_lvalue_reference_v<Arg> && !std::is_const_v<std::remove_reference_t<Arg>>;
  static_assert(
      !mutable_reference || is_or_bases<T, S> ||
          !(std::is_same_v<T, Elapsed> || std::is_same_v<T, Logs> || is_or_bases<T, B>),
      "giro: a callback must take its batch, elapsed and logs as const Batch&, const Elapsed& and const Logs&");
  if constexpr (std::is_same_v<T, Elapsed>) {
    return static_cast<const Elapsed&>(loop.elapsed);
  } else if constexpr (std::is_same_v<T, Logs>) {
    return static_cast<const Logs&>(loop.logs);
  } else if constexpr (std::is_same_v<T, LoopState<S, B>>) {
    return (loop);
  } else if constexpr (is_or_bases<T, S> && (mutable_reference || !std::is_same_v<T, B>)) {
    static_assert(std::is_reference_v<Arg> || std::is_copy_constructible_v<T>,
                  "giro: a callback must take this state by reference: it cannot be copied");
    return static_cast<T&>(loop.state);
  } else if constexpr (is_or_bases<T, B>) {
    return static_cast<const T&>(loop.batch());
  } else {
    static_assert(std::is_void_v<Arg>,
                  "giro: a callback can take only State&, const Batch&, const Elapsed&, const Logs& and LoopState&");
  }
}

template <class Arg>
inline constexpr bool is_observed =
    std::is_same_v<std::remove_cvref_t<Arg>, Elapsed> || std::is_same_v<std::remove_cvref_t<Arg>, Logs>;

// Whether a function of this signature may change the state of its loop.
template <class S, class B, class R, class... Args>
constexpr bool may_change_state(SignatureOf<R, Args...>*) {
  constexpr bool returns_state = !std::is_void_v<R> && !std::is_same_v<std::remove_cvref_t<R>, Logs>;
  return returns_state || (false || ... ||
                           (std::is_same_v<std::remove_cvref_t<Args>, LoopState<S, B>> ||
                            (is_or_bases<std::remove_cvref_t<Args>, S> && std::is_lvalue_reference_v<Args> &&
                             !std::is_const_v<std::remove_reference_t<Args>>)));
}

template <class R, class S, class B>
void take_result(LoopState<S, B>& loop, R&& result) {
  using T = std::remove_cvref_t<R>;
  if constexpr (std::is_same_v<T, Logs>) {
    loop.logs.merge(result);
  } else if constexpr (std::is_same_v<T, S>) {
    loop.state = std::forward<R>(result);
  } else if constexpr (is_made_from<std::optional, T>) {
    if (result) take_result(loop, *std::forward<R>(result));
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    static_assert(
        std::tuple_size_v<T> == 2 || std::tuple_size_v<T> == 3,
        "giro: a callback must return nothing, Logs, the state, (Logs, state) or (Logs of outputs, Logs, state)");
    std::apply([&](auto&&... parts) { (take_result(loop, std::forward<decltype(parts)>(parts)), ...); },
               std::forward<R>(result));
  } else {
    static_assert(
        std::is_void_v<R>,
        "giro: a callback must return nothing, Logs, the state, (Logs, state) or (Logs of outputs, Logs, state)");
  }
}

// Calls f with the arguments its parameter types ask for, and applies its result to the loop.
template <class F, class S, class B, class... Args>
void call_with(F&& f, LoopState<S, B>& loop, std::tuple<Args...>*) {
  if constexpr (std::is_void_v<decltype(f(loop_argument<Args>(loop)...))>) {
    f(loop_argument<Args>(loop)...);
  } else {
    take_result(loop, f(loop_argument<Args>(loop)...));
  }
}

template <class F, class Named>
struct WithName : F, Named {};
struct NamedOnStartAndEnd {
  void on_start();
  void on_end();
};
template <class F>
using WithStartAndEnd =
    std::conditional_t<std::is_class_v<F> && !std::is_final_v<F>, WithName<F, NamedOnStartAndEnd>, NamedOnStartAndEnd>;
// Whether a class has any member of this name, even one whose address cannot be taken: the name is then ambiguous in
// WithName. False for a class from which none can be derived.
template <class F>
inline constexpr bool names_on_start = !requires { &WithStartAndEnd<F>::on_start; };
template <class F>
inline constexpr bool names_on_end = !requires { &WithStartAndEnd<F>::on_end; };

// The readable name of a class; "a function" for a lambda.
std::string name_of(const std::type_info& type);

}  // namespace detail

}  // namespace giro
