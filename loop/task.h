#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <giro/loop/arbiter.h>
#include <giro/loop/callback.h>
#include <giro/loop/log/history.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/loop/time/schedule.h>

namespace giro {

namespace detail {

// A task without the types of its loop.
struct AnyTask {
  Schedule schedule;
  std::vector<AnyCallback> callbacks = {};
};

template <class When, class... Rest>
Schedule expect_task() {
  static_assert(
      std::is_convertible_v<When, Schedule>,
      "giro: a task must begin with a schedule like giro::every(1), or in a predefined loop with an event's name");
  static_assert(sizeof...(Rest) == 0, "giro: a task with several callbacks needs a list of them: {schedule, {a, b}}");
  return never();
}

}  // namespace detail

// Callbacks and when they are due.
template <class S, class B>
struct Task : detail::AnyTask {
  Task(Schedule when, Callback<S, B> callback) : AnyTask{std::move(when), {std::move(callback)}} {}
  Task(Schedule when, std::initializer_list<Callback<S, B>> list)
      : AnyTask{std::move(when), {list.begin(), list.end()}} {}
  Task(Schedule when, std::vector<Callback<S, B>> list)
      : AnyTask{std::move(when), {std::make_move_iterator(list.begin()), std::make_move_iterator(list.end())}} {}
  // Matches any other arguments, to give a readable compile error.
  template <class When, class First, class... Rest>
    requires(sizeof...(Rest) > 0 || !std::is_convertible_v<When, Schedule>)
  Task(When&&, First&&, Rest&&...) : AnyTask{detail::expect_task<When, Rest...>()} {}
};

template <class S, class B>
struct LoopOptions {
  PeriodOrSteps stop = {};  // default: when the dataset ends
  Elapsed elapsed = {};     // where an earlier loop stopped
  History history = {};     // to append to
  Outputs outputs = {};     // likewise
  // Run before the first step, if there is one, and after the last, whatever ended the loop. Their logs are dropped.
  std::vector<Callback<S, B>> on_start = {};
  std::vector<Callback<S, B>> on_end = {};
  std::function<std::int64_t(const B&)> batch_size_fn = {};  // default: giro::batch_size
  std::int64_t tokens_per_sample = 0;  // for periods of tokens, such as a model's context; 0: as in `elapsed`
  std::any metadata = {};              // for LoopState::metadata
  bool catch_signals = true;           // SIGINT and SIGTERM end the loop after its step (LoopResult::interrupted)
  // How many steps are handed to the device at once if no callback needs the host in between; 0: as many as fit.
  // Affects only the speed.
  std::int64_t steps_per_execution = 0;
  std::shared_ptr<Arbiter> arbiter = {};  // default: this process's clock and signals, or those of all ranks
};

}  // namespace giro
