#pragma once

#include <any>
#include <array>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/data/any_dataset.h>
#include <giro/loop/data/range.h>
#include <giro/loop/events.h>
#include <giro/loop/inner_loop.h>
#include <giro/loop/log/aggregation.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/loop.h>
#include <giro/loop/time/schedule.h>

namespace giro {

// Options of test_loop and predict_loop. Callbacks run in this order: the state's own members named like events, then
// `tasks`, then `callbacks`. Tasks for events of other loops are ignored, so one list can serve all loops.
template <class S, class B>
struct EvaluationOptions {
  std::vector<EventTask<S, B>> tasks = {};
  std::vector<EventCallback<S, B>> callbacks = {};
  // As in LoopOptions.
  PeriodOrSteps stop = {};
  Elapsed elapsed = {};
  History history = {};
  Outputs outputs = {};
  std::function<std::int64_t(const B&)> batch_size_fn = {};
  std::int64_t tokens_per_sample = 0;
  std::any metadata = {};
  bool catch_signals = true;
  std::int64_t steps_per_execution = 0;
  std::shared_ptr<Arbiter> arbiter = {};
};

// Options of train_loop.
template <class S, class B>
struct TrainOptions {
  std::vector<EventTask<S, B>> tasks = {};
  std::vector<EventCallback<S, B>> callbacks = {};
  AnyDataset<B> test_dataset = {};    // default: no evaluation
  PeriodOrSteps epoch_duration = {};  // no time or date; default: one pass over the data
  PeriodOrSteps test_duration = {};   // default: the whole test dataset
  std::string test_name = "test";
  Aggregation test_aggregation = "mean";  // of all batches, each entry by its rule; "last": the last batch only
  // As in LoopOptions.
  PeriodOrSteps stop = {};
  Elapsed elapsed = {};
  History history = {};
  Outputs outputs = {};
  std::function<std::int64_t(const B&)> batch_size_fn = {};
  std::int64_t tokens_per_sample = 0;
  std::any metadata = {};
  bool catch_signals = true;
  std::int64_t steps_per_execution = 0;
  std::shared_ptr<Arbiter> arbiter = {};
};

namespace detail {

template <class T>
std::vector<T> joined(std::vector<T> first, const std::vector<T>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// The events of an evaluation loop.
struct EvaluationEvents {
  LoopEvent begin, batch_begin, step, on_step, batch_end, end;
  std::array<std::optional<LoopEvent>, 2> before_begin;  // in reverse order
};
inline constexpr EvaluationEvents kTest{LoopEvent::on_test_begin,
                                        LoopEvent::on_test_batch_begin,
                                        LoopEvent::test_step,
                                        LoopEvent::on_test_step,
                                        LoopEvent::on_test_batch_end,
                                        LoopEvent::on_test_end,
                                        {LoopEvent::on_reset_step, LoopEvent::reset_step}};
inline constexpr EvaluationEvents kPredict{LoopEvent::on_predict_begin,
                                           LoopEvent::on_predict_batch_begin,
                                           LoopEvent::predict_step,
                                           LoopEvent::on_predict_step,
                                           LoopEvent::on_predict_batch_end,
                                           LoopEvent::on_predict_end,
                                           {}};

template <class S, class B>
std::vector<Task<S, B>> evaluation_tasks(EventTable<S, B>& table, const EvaluationEvents& events) {
  std::vector<Task<S, B>> tasks;
  table.add_tasks(tasks, {events.batch_begin, events.step, events.on_step, events.batch_end}, every(1));
  return tasks;
}

// The remaining tasks of an outermost loop.
template <class S, class B>
void add_rest(std::vector<Task<S, B>>& tasks, const EventTable<S, B>& table) {
  if (!table.each_step.empty()) tasks.emplace_back(named(every(1), "callbacks"), table.each_step);
  tasks.insert(tasks.end(), table.scheduled.begin(), table.scheduled.end());
}

// The LoopOptions of a predefined loop.
template <class S, class B, class Options>
LoopOptions<S, B> loop_options(Options& options, EventTable<S, B>& table, LoopEvent begin, LoopEvent end) {
  return {.stop = options.stop,
          .elapsed = options.elapsed,
          .history = std::move(options.history),
          .outputs = std::move(options.outputs),
          .on_start = joined(table.on_start, table[begin]),
          .on_end = joined(table[end], table.on_end),
          .batch_size_fn = options.batch_size_fn,
          .tokens_per_sample = options.tokens_per_sample,
          .metadata = std::move(options.metadata),
          .catch_signals = options.catch_signals,
          .steps_per_execution = options.steps_per_execution,
          .arbiter = options.arbiter};
}

// Runs a loop. An error before its first step also becomes a LoopError, so that nothing is lost.
template <class S, class O, class F>
LoopResult<S> run_loop(S& state, O& options, F&& f) {
  try {
    return f();
  } catch (const LoopError&) {
    throw;
  } catch (...) {
    const std::exception_ptr cause = std::current_exception();
    const auto [code, what] = explain_exception(cause);
    throw LoopError(code, what, cause, std::move(state), options.elapsed, std::move(options.history),
                    std::move(options.outputs), std::move(options.metadata));
  }
}

template <class S, class B, class R>
LoopResult<S> evaluation_loop(S state, R& dataset, EvaluationOptions<S, B> options, const EvaluationEvents& events) {
  return run_loop(state, options, [&] {
    EventTable<S, B> table = make_events(std::move(options.tasks), options.callbacks);
    table.expect(events.step, {events.batch_begin, events.on_step, events.batch_end});
    std::vector<Task<S, B>> tasks = evaluation_tasks(table, events);
    add_rest(tasks, table);
    auto& before = table[events.begin];
    for (const std::optional<LoopEvent> event : events.before_begin) {
      if (event) before.insert(before.begin(), table[*event].begin(), table[*event].end());
    }
    return loop(std::move(state), dataset, tasks, loop_options(options, table, events.begin, events.end));
  });
}

// The evaluation in a train loop, as one of its callbacks.
template <class S, class B>
Callback<S, B> inner_test(EventTable<S, B>& table, const TrainOptions<S, B>& options) {
  std::vector<Task<S, B>> tasks = evaluation_tasks(table, kTest);
  if (tasks.empty()) reject_missing_step(kTest.step);
  LoopOptions<S, B> test_options{.stop = options.test_duration,
                                 .on_start = table[LoopEvent::on_test_begin],
                                 .on_end = table[LoopEvent::on_test_end],
                                 .batch_size_fn = options.batch_size_fn,
                                 .tokens_per_sample = options.tokens_per_sample,
                                 .metadata = options.metadata,
                                 .catch_signals = options.catch_signals,
                                 .steps_per_execution = options.steps_per_execution,
                                 .arbiter = options.arbiter};
  bool changes_state = false;
  const auto look_at = [&](const auto& callbacks) {
    for (const AnyCallback& callback : callbacks) changes_state |= callback->traits.changes_state;
  };
  look_at(test_options.on_start);
  look_at(test_options.on_end);
  for (const Task<S, B>& task : tasks) look_at(task.callbacks);

  auto test =
      inner_loop(options.test_name,
                 [tasks = std::move(tasks), test_options = std::move(test_options), dataset = options.test_dataset](
                     S& state) { return loop(std::move(state), dataset, tasks, test_options); },
                 {.aggregation = options.test_aggregation});
  if (!changes_state) test.preserves_state();
  return test;
}

// Due in the last step of each epoch; the caller adds last().
template <class R>
Schedule epoch_end(const R& dataset, const Period& duration) {
  if (!duration.is_empty()) return every_end(duration);
  if constexpr (requires {
                  { dataset.num_rows() } -> std::convertible_to<std::int64_t>;
                }) {
    return every_end({.samples = dataset.num_rows()});
  } else {
    return never();
  }
}

}  // namespace detail

// A loop of named events (LoopEvent). In each step, in this order:
//   on_train_batch_begin, train_step, on_train_step
//   in the last step of each epoch, and of the loop:
//     reset_step, on_reset_step, the evaluation over test_dataset, on_epoch_end
//   on_train_batch_end, then `callbacks` without events, then the tasks with schedules
// on_train_begin runs before the first step, on_train_end after the last. The evaluation is a loop of
// on_test_batch_begin, test_step, on_test_step and on_test_batch_end, between on_test_begin and on_test_end. Its
// aggregated logs are logged in the step in which it runs, as "<entry>_<test_name>". It leaves the state unchanged
// (InnerLoop).
//
//   auto [trained, history, elapsed] = giro::train_loop(std::move(state), train,
//       {.tasks = {{"train_step", train_step}, {"test_step", test_step}},
//        .callbacks = {giro::keras_bar({.total = 5'000})},
//        .test_dataset = test, .stop = giro::at(5'000)});
//
// An epoch is `epoch_duration` in steps, samples or tokens. By default it has dataset.num_rows() samples; it is the
// whole loop if the dataset has no num_rows. The last epoch may be shorter. If the loop ends for a reason other than
// `stop`, this is known only at the end of its last step, and the end of the epoch then runs after everything else.
// Errors: LoopError for every error. In addition to those of loop: invalid_argument if epoch_duration is not positive
// or gives a time or a date, if neither the steps nor an evaluation have anything to run, and if the steps of the
// evaluation have nothing to run; not_found for unknown events.
template <class Given, std::ranges::input_range R, class S = detail::state_of<Given>>
[[nodiscard]] LoopResult<S> train_loop(
    Given&& given, R&& dataset, std::type_identity_t<TrainOptions<S, std::ranges::range_value_t<R>>> options = {}) {
  using B = std::ranges::range_value_t<R>;
  S state = std::forward<Given>(given);
  return detail::run_loop(state, options, [&] {
    detail::EventTable<S, B> table = detail::make_events(std::move(options.tasks), options.callbacks);
    const Schedule epoch_end = detail::epoch_end(dataset, options.epoch_duration) | last();
    if (!options.test_dataset) {
      table.expect(LoopEvent::train_step,
                   {LoopEvent::on_train_batch_begin, LoopEvent::on_train_step, LoopEvent::on_train_batch_end});
    }

    std::vector<Task<S, B>> tasks;
    table.add_tasks(tasks, {LoopEvent::on_train_batch_begin, LoopEvent::train_step, LoopEvent::on_train_step},
                    every(1));
    table.add_tasks(tasks, {LoopEvent::reset_step, LoopEvent::on_reset_step}, epoch_end);
    if (options.test_dataset) {
      tasks.emplace_back(detail::named(epoch_end, "evaluation"), detail::inner_test(table, options));
    }
    table.add_tasks(tasks, {LoopEvent::on_epoch_end}, epoch_end);
    table.add_tasks(tasks, {LoopEvent::on_train_batch_end}, every(1));
    detail::add_rest(tasks, table);
    return loop(std::move(state), dataset, tasks,
                detail::loop_options(options, table, LoopEvent::on_train_begin, LoopEvent::on_train_end));
  });
}

// train_loop under its Keras name.
template <class Given, std::ranges::input_range R, class S = detail::state_of<Given>>
[[nodiscard]] LoopResult<S> fit(Given&& state, R&& dataset,
                                std::type_identity_t<TrainOptions<S, std::ranges::range_value_t<R>>> options = {}) {
  return train_loop(std::forward<Given>(state), dataset, std::move(options));
}

// Each step runs on_test_batch_begin, test_step, on_test_step, on_test_batch_end, then `callbacks` without events, then
// the tasks with schedules. reset_step, on_reset_step and on_test_begin run before the first step, on_test_end after
// the last. aggregate() reduces each entry of the history to one number. Errors: as train_loop.
template <class Given, std::ranges::input_range R, class S = detail::state_of<Given>>
[[nodiscard]] LoopResult<S> test_loop(
    Given&& state, R&& dataset,
    std::type_identity_t<EvaluationOptions<S, std::ranges::range_value_t<R>>> options = {}) {
  return detail::evaluation_loop(S(std::forward<Given>(state)), dataset, std::move(options), detail::kTest);
}

// The same with the events on_predict_batch_begin, predict_step, on_predict_step, on_predict_batch_end,
// on_predict_begin and on_predict_end. The outputs that predict_step logs are in the result's `outputs`:
//
//   auto result = giro::predict_loop(std::move(state), test, {.tasks = {{"predict_step", predict_step}}});
//   giro::HostArray logits = result.outputs.concatenate("logits");
template <class Given, std::ranges::input_range R, class S = detail::state_of<Given>>
[[nodiscard]] LoopResult<S> predict_loop(
    Given&& state, R&& dataset,
    std::type_identity_t<EvaluationOptions<S, std::ranges::range_value_t<R>>> options = {}) {
  return detail::evaluation_loop(S(std::forward<Given>(state)), dataset, std::move(options), detail::kPredict);
}

}  // namespace giro
