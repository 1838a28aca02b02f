#pragma once

#include <any>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <giro/loop/log/history.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// Why a run has returned.
enum class StopReason {
  reached,        // it is at the point it was advanced to, and can continue
  dataset_ended,  // there is no batch left
  stopped,        // LoopOptions::stop was reached, or a callback asked to stop
  interrupted,    // by a signal
};

namespace detail {

// A LoopResult without the state.
struct RunResults {
  History history = {};
  Elapsed elapsed = {};
  Outputs outputs = {};
  std::any metadata = {};
  int interrupted = 0;
  StopReason ended = StopReason::reached;
};

}  // namespace detail

// What a loop returns; `auto [state, history, elapsed] = loop(...)` takes the first three.
template <class S>
struct LoopResult {
  S state;
  History history;
  Elapsed elapsed;  // completed steps; another loop can continue from here, with a dataset at this position
  Outputs outputs;  // what was logged as outputs, arrays included
  std::any metadata;
  int interrupted = 0;  // the signal that ended the loop, or 0
  // Why it has ended: `dataset_ended` if the data ended before LoopOptions::stop; `reached` for a Run that was finished
  // while paused.
  StopReason ended = StopReason::reached;
};

template <std::size_t kIndex, class R>
  requires requires(R& result) { result.interrupted; }
auto&& get(R&& result) {
  if constexpr (kIndex == 0)
    return std::forward<R>(result).state;
  else if constexpr (kIndex == 1)
    return std::forward<R>(result).history;
  else
    return std::forward<R>(result).elapsed;
}

}  // namespace giro

template <class S>
struct std::tuple_size<giro::LoopResult<S>> : std::integral_constant<std::size_t, 3> {};
template <std::size_t kIndex, class S>
struct std::tuple_element<kIndex, giro::LoopResult<S>>
    : std::tuple_element<kIndex, std::tuple<S, giro::History, giro::Elapsed>> {};
