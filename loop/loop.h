#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/data/range.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/loop_result.h>
#include <giro/loop/run.h>
#include <giro/loop/task.h>

namespace giro {

namespace detail {

// The type of the state passed to a loop.
template <class Given>
struct StateOf {
  using type = std::remove_cvref_t<Given>;
  static_assert(std::is_constructible_v<type, Given>,
                "giro: a state that cannot be copied must be moved into a loop: loop(std::move(state), ...)");
};
template <class Given>
using state_of = typename StateOf<Given>::type;

}  // namespace detail

// Threads `state` through the batches of `dataset` until the dataset ends or `stop` is reached. In each step, the
// callbacks of every due task run in order. Their logs are merged and, if there are any, committed to the history. A
// callback that sets stop_iteration ends the loop after this step; the callbacks after it do not run. Steps that do not
// need the host (CallbackKind) are handed to the device many at a time.
//
//   auto [trained, history, elapsed] = giro::loop(std::move(state), train, {{giro::every(1), train_step}},
//                                                 {.stop = giro::at(5'000)});
//
// Errors: LoopError for whatever a callback, a schedule, the dataset or the device throws, and for an empty dataset if
// `stop` gives steps or samples.
template <class Given, std::ranges::input_range R, class S = detail::state_of<Given>>
[[nodiscard]] LoopResult<S> loop(Given&& state, R&& dataset,
                                 const std::type_identity_t<std::vector<Task<S, std::ranges::range_value_t<R>>>>& tasks,
                                 std::type_identity_t<LoopOptions<S, std::ranges::range_value_t<R>>> options = {}) {
  const detail::InterruptScope signals(options.catch_signals);
  Run<S, std::remove_reference_t<R>> run(std::forward<Given>(state), dataset, tasks, std::move(options));
  run.advance();
  return run.finish();
}

}  // namespace giro
