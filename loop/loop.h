#pragma once

#include <cstdint>
#include <concepts>
#include <deque>
#include <initializer_list>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/callback.h>
#include <giro/loop/elapsed.h>
#include <giro/loop/history.h>
#include <giro/loop/schedule.h>

namespace giro {

// The samples in a batch: its size() where it has one, else 1.
template <class B>
std::int64_t batch_size(const B& batch) {
  if constexpr (requires { { batch.size() } -> std::convertible_to<std::int64_t>; }) {
    return static_cast<std::int64_t>(batch.size());
  } else {
    return 1;
  }
}

// Callbacks and when they are due.
template <class S, class B>
struct Task {
  Schedule schedule;
  std::vector<Callback<S, B>> callbacks;

  Task(Schedule when, Callback<S, B> callback) : schedule(std::move(when)), callbacks{std::move(callback)} {}
  Task(Schedule when, std::initializer_list<Callback<S, B>> list) : schedule(std::move(when)), callbacks(list) {}
};

struct LoopOptions {
  Period stop;           // default: when the dataset ends
  Elapsed elapsed = {};  // where an earlier loop has left off
  History history = {};  // to be continued
};

template <class S>
struct LoopResult {
  S state;
  History history;
  Elapsed elapsed;  // completed steps: passing it to another loop continues exactly
};

namespace detail {

// Steps whose logs the host has not seen yet, in order.
template <class S, class B>
class Pending {
 public:
  explicit Pending(History& history) : history_(history) {}

  void push(const Elapsed& elapsed, Logs logs, std::vector<const Callback<S, B>*> observers) {
    if (!logs.empty() || !observers.empty()) steps_.push_back({elapsed, std::move(logs), std::move(observers)});
  }
  // Commits and shows to their observers the steps whose logs have arrived, or all of them.
  void drain(bool wait) {
    while (!steps_.empty() && (wait || steps_.front().logs.ready())) {
      const Step step = std::move(steps_.front());
      steps_.pop_front();
      if (!step.logs.empty()) history_.commit(step.elapsed, step.logs);
      for (const auto* observer : step.observers) observer->observe(step.elapsed, step.logs);
    }
  }

 private:
  struct Step {
    Elapsed elapsed;
    Logs logs;
    std::vector<const Callback<S, B>*> observers;
  };
  History& history_;
  std::deque<Step> steps_;
};

}  // namespace detail

// Threads `state` through the batches of `dataset` until it ends or `stop` is reached. At each step, for each task in
// order whose schedule is due, its callbacks run in order; what they log is merged, and committed to the history if
// there is any. A callback that sets stop_iteration ends the loop after this step; the callbacks behind it do not run.
//
//   auto [trained, history, elapsed] = giro::loop(std::move(state), train, {{giro::every(1), train_step}},
//                                                 {.stop = giro::at(5'000)});
template <class S, std::ranges::input_range R>
LoopResult<S> loop(S state, R&& dataset,
                   const std::type_identity_t<std::vector<Task<S, std::ranges::range_value_t<R>>>>& tasks,
                   LoopOptions options = {}) {
  using B = std::ranges::range_value_t<R>;
  using Kind = typename Callback<S, B>::Kind;
  std::vector<Task<S, B>> own_tasks = tasks;
  History history = std::move(options.history);
  Elapsed elapsed = options.elapsed;
  elapsed.date_start = Elapsed::now() - elapsed.time();
  elapsed.date = Elapsed::now();
  detail::Pending<S, B> pending(history);

  // A run that is past its end asks for no batch.
  if (elapsed >= options.stop) return {std::move(state), std::move(history), elapsed};
  auto it = std::ranges::begin(dataset);
  const auto end = std::ranges::end(dataset);
  bool stopped = false;
  while (!stopped && it != end) {
    decltype(auto) batch = *it;
    LoopState<S, B> loop_state{state, batch, history, elapsed, {}};
    std::vector<const Callback<S, B>*> observers;
    for (Task<S, B>& task : own_tasks) {
      if (!task.schedule(elapsed)) continue;
      for (const Callback<S, B>& callback : task.callbacks) {
        if (loop_state.stop_iteration) break;
        if (callback.kind() == Kind::observer) {
          observers.push_back(&callback);
          continue;
        }
        if (callback.kind() == Kind::barrier) pending.drain(true);
        callback.run(loop_state);
      }
    }
    pending.push(elapsed, std::move(loop_state.logs), std::move(observers));
    pending.drain(false);
    elapsed.update(batch_size(batch));
    stopped = loop_state.stop_iteration || elapsed >= options.stop;
    // A batch that no step will see is not asked for.
    if (!stopped) ++it;
  }
  pending.drain(true);
  return {std::move(state), std::move(history), elapsed};
}

}  // namespace giro
