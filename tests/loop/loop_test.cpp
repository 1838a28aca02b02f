#include <giro/loop/loop.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <any>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <giro/loop/data/batch.h>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
using Values = std::vector<double>;
using Ints = std::vector<int>;

struct Counts {
  int a = 0, b = 0;
};

Ints iota(int size) {
  Ints values;
  for (int i = 0; i < size; ++i) values.push_back(i);
  return values;
}

// 0, 1, 2, ... without end; counts how many were requested.
class Counting {
 public:
  class Iterator {
   public:
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(int* pulled) : pulled_(pulled) { ++*pulled_; }
    int operator*() const { return value_; }
    Iterator& operator++() {
      ++value_;
      ++*pulled_;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return false; }

   private:
    int* pulled_ = nullptr;
    int value_ = 0;
  };
  Iterator begin() { return Iterator(&pulled); }
  std::default_sentinel_t end() const { return {}; }

  int pulled = 0;
};
static_assert(std::ranges::input_range<Counting>);

// Reference test 5: ten batches.
TEST(Loop, TasksRunWhenTheyAreDue) {
  const auto [state, history, elapsed] =
      loop(Counts{}, iota(10), {{every(1), [](Counts& s) { ++s.a; }}, {every(2), [](Counts& s) { ++s.b; }}});
  EXPECT_EQ(state.a, 10);
  EXPECT_EQ(state.b, 5);
  EXPECT_EQ(history.size(), 0u);
  EXPECT_EQ(elapsed.steps, 10);
  EXPECT_EQ(elapsed.samples, 10);
}

// Reference test 6: three steps.
TEST(Loop, LogsWithoutState) {
  const auto [state, history, elapsed] = loop(0, Counting(),
                                              {{every(1),
                                                [](int& s) {
                                                  ++s;
                                                  return logs().add_metric("a", s).add_metric("b", -s);
                                                }}},
                                              {.stop = at(3)});
  const auto [a, b, steps] = history.collect("a", "b", "steps");
  EXPECT_EQ(state, 3);
  EXPECT_EQ(a, (Values{1, 2, 3}));
  EXPECT_EQ(b, (Values{-1, -2, -3}));
  EXPECT_EQ(steps, (Values{0, 1, 2}));
  EXPECT_EQ(elapsed.steps, 3);
}

// A checkpoint as a barrier: it sees the state, and the history up to the previous step.
TEST(Loop, CheckpointEveryTwoSteps) {
  std::vector<std::pair<std::int64_t, int>> saved;
  const auto checkpoint = [&](const Elapsed& e, const Counts& s) { saved.emplace_back(e.steps, s.a); };
  const auto step = [](Counts& s) {
    ++s.a;
    return logs().add_metric("a", s.a);
  };
  const auto [state, history, elapsed] = loop(Counts{}, iota(3), {{every(1), step}, {every(2), checkpoint}});
  EXPECT_EQ(saved, (std::vector<std::pair<std::int64_t, int>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(history.size(), 3u);
  EXPECT_EQ(history.collect("steps")[0], (Values{0, 1, 2}));
}

TEST(Loop, CallbacksOfATaskRunInOrder) {
  std::string order;
  const auto note = [&](char c) { return [&order, c](Counts&) { order += c; }; };
  (void)loop(Counts{}, iota(2), {{every(1), {note('a'), note('b')}}, {every(2), note('c')}, {every(1), {note('d')}}});
  EXPECT_EQ(order, "abcdabd");
}

TEST(Loop, EqualSchedulesDoNotCollide) {
  int runs = 0;
  const Schedule one = every(1);
  (void)loop(Counts{}, iota(3), {{one, [&](Counts&) { ++runs; }}, {one, [&](Counts&) { ++runs; }}});
  EXPECT_EQ(runs, 6);
}

TEST(Loop, DoesNotModifyTheCallersTasks) {
  const std::vector<Task<Counts, int>> tasks{{every({.samples = 2}), [n = 0](Counts& s) mutable { s.a = ++n; }}};
  for (int i = 0; i < 2; ++i) {
    const auto result = loop(Counts{}, iota(7), tasks);
    EXPECT_EQ(result.state.a, 3);  // at 2, 4 and 6 samples
  }
}

TEST(Loop, LaterLogsWin) {
  const auto result =
      loop(0, iota(1),
           {{every(1),
             [](int& s) {
               return std::pair{logs().add_metric("a", 1), s + 1};
             }},
            {every(1), [](const Logs& l, int& s) { return logs().add_metric("a", l.entry_value("a") + s); }}});
  EXPECT_EQ(result.history.collect("a")[0], Values{2});
}

TEST(Loop, StopIterationSkipsTheRest) {
  std::string order;
  const auto [state, history, elapsed] = loop(Counts{}, Counting(),
                                              {{every(1),
                                                {[&](Counts&) {
                                                   order += 'a';
                                                   return logs().add_metric("a", 1);
                                                 },
                                                 [&](LoopState<Counts, int>& l) {
                                                   order += 'b';
                                                   l.stop_iteration = l.elapsed.steps == 2;
                                                 },
                                                 [&](Counts&) { order += 'c'; }}},
                                               {every(1), [&](const Elapsed&) { order += 'o'; }},
                                               {every(1), [&](Counts&) { order += 'd'; }}});
  // The last step is counted and committed. Its observer comes after the stop and is skipped too.
  EXPECT_EQ(order,
            "abcdo"
            "abcdo"
            "ab");
  EXPECT_EQ(elapsed.steps, 3);
  EXPECT_EQ(history.size(), 3u);
}

TEST(Loop, ObserversSeeTheWholeLogsAfterTheStep) {
  std::vector<std::string> order;
  std::vector<double> seen;
  (void)loop(0, iota(3),
             {{every(1),
               [&](const Elapsed& e, const Logs& l) {
                 order.push_back("observer " + std::to_string(e.steps));
                 seen.push_back(l.entry_value("late"));
               }},
              {every(1),
               [&](int& s) {
                 order.push_back("step");
                 return logs().add_metric("early", ++s);
               }},
              {every(1), [&](const Logs&) { order.push_back("second"); }},
              {every(1), [](int& s) { return logs().add_metric("late", 10 * s); }}});
  EXPECT_EQ(seen, (Values{10, 20, 30}));
  ASSERT_EQ(order.size(), 9u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(order[3 * i], "step");
    EXPECT_EQ(order[3 * i + 1], "observer " + std::to_string(i));
    EXPECT_EQ(order[3 * i + 2], "second");
  }
}

TEST(Loop, ObserversOfStepsWithoutLogs) {
  int observed = 0;
  const auto result = loop(0, iota(4), {{every(2), [&](const Elapsed&) { ++observed; }}});
  EXPECT_EQ(observed, 2);
  EXPECT_EQ(result.history.size(), 0u);
}

TEST(Loop, BarriersSeeTheHistoryOfTheStepsBefore) {
  std::vector<std::size_t> sizes;
  int observed = 0;
  (void)loop(0, iota(4),
             {{every(1), [](int& s) { return logs().add_metric("a", s); }},
              {every(1), [&](const Elapsed&) { ++observed; }},
              {every(1), [&](LoopState<int, int>& l) {
                 sizes.push_back(l.history.size());
                 EXPECT_EQ(observed, l.elapsed.steps);
                 EXPECT_EQ(l.logs.entries().size(), 1u);
               }}});
  EXPECT_EQ(sizes, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(observed, 4);
}

TEST(Loop, FetchesNoUnusedBatch) {
  Counting dataset;
  (void)loop(0, dataset, {}, {.stop = at(5)});
  EXPECT_EQ(dataset.pulled, 5);

  Counting stopped;
  (void)loop(0, stopped, {{every(1), [](LoopState<int, int>& l) { l.stop_iteration = true; }}});
  EXPECT_EQ(stopped.pulled, 1);

  Counting past;
  const auto result = loop(0, past, {{every(1), [](int& s) { ++s; }}}, {.stop = at(5), .elapsed = {.steps = 5}});
  EXPECT_EQ(past.pulled, 0);
  EXPECT_EQ(result.state, 0);
  EXPECT_EQ(result.elapsed.steps, 5);
}

TEST(Loop, ReportsWhyItEnded) {
  const auto ended = [](int batches, const LoopOptions<Counts, int>& options, bool stops = false) {
    const auto stop = [&](LoopState<Counts, int>& l) { l.stop_iteration = stops; };
    return loop(Counts{}, std::vector<int>(static_cast<std::size_t>(batches)), {{every(1), stop}}, options).ended;
  };
  EXPECT_EQ(ended(3, {.stop = 5}), StopReason::dataset_ended);
  EXPECT_EQ(ended(3, {}), StopReason::dataset_ended);
  EXPECT_EQ(ended(3, {.stop = 2}), StopReason::stopped);
  EXPECT_EQ(ended(3, {.stop = at(3)}), StopReason::stopped);  // no batch is requested after the last one
  EXPECT_EQ(ended(3, {}, true), StopReason::stopped);
  EXPECT_EQ(ended(0, {}), StopReason::dataset_ended);
}

TEST(Loop, EmptyDataset) {
  const auto result = loop(1, Ints{}, {{every(1), [](int& s) { ++s; }}});
  EXPECT_EQ(result.state, 1);
  EXPECT_EQ(result.elapsed.steps, 0);
}

TEST(Loop, ContinuesWhereAnotherStopped) {
  const std::vector<Task<int, int>> tasks{{every(1), [](int& s, const Elapsed& e) {
                                             EXPECT_EQ(e.steps, s);
                                             return std::pair{logs().add_metric("a", s), s + 1};
                                           }}};
  auto first = loop(0, Counting(), tasks, {.stop = at(3)});
  EXPECT_EQ(first.elapsed.steps, 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double time = first.elapsed.time();
  const auto second = loop(first.state, Counting(), tasks,
                           {.stop = at(7), .elapsed = first.elapsed, .history = std::move(first.history)});
  EXPECT_EQ(second.elapsed.steps, 7);
  EXPECT_EQ(second.elapsed.samples, 7);
  const auto [steps, a] = second.history.collect("steps", "a");
  EXPECT_EQ(steps, (Values{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(a, steps);
  // The time in between does not count.
  EXPECT_GE(second.elapsed.time(), time);
  EXPECT_LT(second.elapsed.time(), time + 0.02);
}

TEST(Loop, SamplesAreCounted) {
  using Features = Batch::Features;
  std::vector<float> memory(6);
  const auto tensor = [&](const Shape& shape) { return Tensor(memory.data(), DType::f32, shape, Device::cpu()); };
  const auto samples_of = [](const auto& batch) { return loop(0, std::vector(5, batch), {}).elapsed.samples; };
  EXPECT_EQ(samples_of(Batch(Features{{"a", tensor({3, 2})}, {"b", tensor({4, 1})}})), 20);
  EXPECT_EQ(samples_of(Batch(Features{{"a", tensor({})}})), 5);
  EXPECT_EQ(samples_of(Batch()), 5);
  EXPECT_EQ(samples_of(2.5), 5);
  EXPECT_EQ(samples_of(std::vector<int>{1, 2, 3}), 15);
}

TEST(Loop, StopsAtSamplesAndTime) {
  EXPECT_EQ(loop(0, std::vector(9, Ints{1, 2}), {}, {.stop = at({.samples = 5})}).elapsed.steps, 3);
  const auto timed = loop(0, Counting(), {}, {.stop = at({.time = 0.01})});
  EXPECT_GE(timed.elapsed.time(), 0.01);
  EXPECT_LT(timed.elapsed.time(), 5.0);
}

TEST(Loop, StopsAndSchedulesByTokens) {
  // 6 tokens a batch: 20 are reached at the end of the fourth.
  const std::vector<Ints> data(9, Ints{1, 2});
  std::vector<std::int64_t> due;
  const std::vector<Task<int, Ints>> tasks{
      {every({.tokens = 10}) | last(), [&](const Elapsed& elapsed, int&) { due.push_back(elapsed.tokens()); }}};
  const auto first = loop(0, data, tasks, {.stop = at({.tokens = 20}), .tokens_per_sample = 3});
  EXPECT_EQ(first.elapsed.steps, 4);
  EXPECT_EQ(due, (std::vector<std::int64_t>{12, 18}));
  // A loop that continues it knows the number of tokens per sample.
  due.clear();
  EXPECT_EQ(loop(0, data, tasks, {.stop = at({.tokens = 40}), .elapsed = first.elapsed}).elapsed.steps, 7);
  EXPECT_EQ(due, (std::vector<std::int64_t>{24, 30, 36}));
}

TEST(Loop, UnknownTokensAreAnError) {
  const std::vector<Ints> data(2, Ints{1, 2});
  test::expect_error(ErrorCode::invalid_argument, {"tokens_per_sample is 0"},
                     [&] { (void)loop(0, data, {}, {.stop = at({.tokens = 20})}); });
  test::expect_error(ErrorCode::invalid_argument,
                     {"task 1, every({.tokens = 9}): its schedule, at step 0", "tokens_per_sample is 0"}, [&] {
                       (void)loop(0, data, {{every({.tokens = 9}), [](int&) {}}});
                     });
  test::expect_error(ErrorCode::invalid_argument, {"LoopOptions::tokens_per_sample is -1, expected at least 0"},
                     [&] { (void)loop(0, data, {}, {.tokens_per_sample = -1}); });
  const auto first = loop(0, data, {}, {.tokens_per_sample = 3});
  test::expect_error(ErrorCode::invalid_argument,
                     {"LoopOptions::tokens_per_sample is 4, expected 3, as in the 2 previous steps"},
                     [&] { (void)loop(0, data, {}, {.elapsed = first.elapsed, .tokens_per_sample = 4}); });
}

TEST(Loop, FirstStepIsStepZero) {
  (void)loop(0, iota(1), {{every(1), [](const Elapsed& e, int&) {
                             EXPECT_EQ(e.steps, 0);
                             EXPECT_EQ(e.samples, 0);
                             EXPECT_NEAR(e.time(), 0, 1e-3);
                             EXPECT_NEAR(e.date, Elapsed::now(), 1.0);
                           }}});
}

TEST(Loop, BatchesOfAnyType) {
  std::string text;
  (void)loop(0, std::vector<std::string>{"a", "bc"},
             {{every(1), [&](const std::string& batch, int&) { text += batch; }}});
  EXPECT_EQ(text, "abc");
  int sum = 0;
  (void)loop(0, std::views::iota(1, 4) | std::views::transform([](int i) { return 2.0 * i; }),
             {{every(1), [&](const double& batch) { sum += static_cast<int>(batch); }}});
  EXPECT_EQ(sum, 12);
}

TEST(Loop, MoveOnlyStates) {
  auto result = loop(std::make_unique<int>(4), iota(3), {{every(1), [](std::unique_ptr<int>& s) { ++*s; }}});
  EXPECT_EQ(*result.state, 7);
}

TEST(Loop, CallbackExceptionsPropagate) {
  EXPECT_THROW((void)loop(0, iota(3), {{every(1), [](int&) { throw std::runtime_error("mine"); }}}),
               std::runtime_error);
}

Schedule when(std::vector<std::int64_t> steps) {
  return [steps](const Elapsed& e) { return std::find(steps.begin(), steps.end(), e.steps) != steps.end(); };
}

// Records the completed steps at which it was called.
auto note_steps(std::vector<std::int64_t>& steps) {
  return [&steps](const Elapsed& elapsed, Counts&) { steps.push_back(elapsed.steps); };
}

using Steps = std::vector<std::int64_t>;

TEST(Loop, LastIsTheFinalStepHoweverTheLoopEnds) {
  Steps steps;
  const auto run = [&](auto&& dataset, std::vector<Task<Counts, int>> more, LoopOptions<Counts, int> options) {
    steps.clear();
    more.insert(more.begin(), Task<Counts, int>(every(3) | last(), note_steps(steps)));
    return loop(Counts{}, dataset, more, std::move(options)).elapsed.steps;
  };
  EXPECT_EQ(run(Counting(), {}, {.stop = at(6)}), 6);
  EXPECT_EQ(steps, (Steps{0, 3, 5}));
  EXPECT_EQ(run(Counting(), {}, {.stop = at(7)}), 7);
  EXPECT_EQ(steps, (Steps{0, 3, 6}));  // once, though both sides are due
  EXPECT_EQ(run(Counting(), {}, {.stop = at({.samples = 5})}), 5);
  EXPECT_EQ(steps, (Steps{0, 3, 4}));
  EXPECT_EQ(run(iota(6), {}, {}), 6);
  EXPECT_EQ(steps, (Steps{0, 3, 5}));
  const auto stop_at = [](std::int64_t step) {
    return Task<Counts, int>(every(1),
                             [step](LoopState<Counts, int>& l) { l.stop_iteration = l.elapsed.steps == step; });
  };
  EXPECT_EQ(run(Counting(), {stop_at(4)}, {}), 5);
  EXPECT_EQ(steps, (Steps{0, 3, 4}));
  EXPECT_EQ(run(Counting(), {stop_at(3)}, {}), 4);
  EXPECT_EQ(steps, (Steps{0, 3}));
  EXPECT_EQ(run(Counting(), {{when({4}), [](Counts&) { std::raise(SIGTERM); }}}, {}), 5);
  EXPECT_EQ(steps, (Steps{0, 3, 4}));
  const auto slow = [](Counts&) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  const std::int64_t timed = run(Counting(), {{every(1), slow}}, {.stop = at({.time = 0.021})});
  EXPECT_EQ(steps.back(), timed - 1);
}

// Callbacks due by last() run after the stop, in the same step, and their logs are committed with it.
TEST(Loop, LastRunsEvenIfAStopSkipsTheRest) {
  const auto result = loop(Counts{}, Counting(),
                           {{when({2}), [](LoopState<Counts, int>& l) { l.stop_iteration = true; }},
                            {every(1), [](Counts& s) { ++s.a; }},
                            {last(), [](const int& batch) { return logs().add_metric("batch", batch); }}});
  EXPECT_EQ(result.state.a, 2);
  const auto [steps, batches] = result.history.collect("steps", "batch");
  EXPECT_EQ(steps, Values{2});
  EXPECT_EQ(batches, Values{2});
}

// last() also runs the callbacks that a stop in their own task skipped.
TEST(Loop, LastRunsCallbacksSkippedByAStopInItsTask) {
  std::vector<std::string> calls;
  const auto call = [&](const std::string& name, int stop_at) {
    return [&calls, name, stop_at](LoopState<int, int>& l) {
      calls.push_back(name + std::to_string(l.elapsed.steps));
      if (l.elapsed.steps == stop_at) l.stop_iteration = true;
    };
  };
  (void)loop(0, iota(100), {{every(2) | last(), {call("a", 4), call("b", -1)}}});
  EXPECT_EQ(calls, (std::vector<std::string>{"a0", "b0", "a2", "b2", "a4", "b4"}));
  // Also in the loop's last step.
  calls.clear();
  (void)loop(0, iota(100), {{every(1), call("a", 4)}, {every(2) | last(), call("b", -1)}, {every(1), call("c", -1)}},
             {.stop = at(5)});
  EXPECT_EQ(calls, (std::vector<std::string>{"a0", "b0", "c0", "a1", "c1", "a2", "b2", "c2", "a3", "c3", "a4", "b4"}));
}

// A batch that the iterator itself holds is still there after a request for another one failed.
TEST(Loop, LastBatchIsAvailableWhenTheDatasetEnds) {
  std::string seen;
  const auto note = [&](const std::string& batch, Counts&) { seen += batch; };
  const std::vector<std::string> words{"one", "two", "three"};
  (void)loop(Counts{}, words, {{last(), note}});
  EXPECT_EQ(seen, "three");
  (void)loop(Counts{}, words | std::views::transform([](const std::string& word) { return word + "!"; }),
             {{last(), note}});
  EXPECT_EQ(seen, "threethree!");

  // A single-pass range may no longer hold its last batch.
  std::istringstream stream("one two three");
  bool had_batch = true;
  (void)loop(Counts{}, std::views::istream<std::string>(stream),
             {{last(), [&](LoopState<Counts, std::string>& l) { had_batch = l.has_batch(); }}});
  EXPECT_FALSE(had_batch);
  std::istringstream again("one two three");
  try {
    (void)loop(Counts{}, std::views::istream<std::string>(again), {{last(), note}});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_NE(std::string(error.what()).find("there is no batch here: the last step is over"), std::string::npos);
    EXPECT_EQ(error.elapsed().steps, 2);
  }
}

TEST(Loop, OnStartAndOnEnd) {
  std::string order;
  using Options = LoopOptions<Counts, int>;
  const auto options = [&] {
    return Options{.stop = at(2),
                   .on_start = {[&](Counts& s, const int& batch) {
                     order += 's';
                     s.a = 10 + batch;
                     return logs().add_metric("start", 1);
                   }},
                   .on_end = {[&](LoopState<Counts, int>& l) {
                     order += 'e';
                     EXPECT_EQ(l.elapsed.steps, 2);
                     EXPECT_EQ(l.history.size(), 2u);
                     l.state.b = 5;
                     EXPECT_THROW(l.batch(), Error);
                   }}};
  };
  const auto step = [&](Counts& s) {
    order += 'x';
    return logs().add_metric("a", ++s.a);
  };
  const auto result = loop(Counts{}, iota(9), {{every(1), step}}, options());
  EXPECT_EQ(order, "sxxe");
  EXPECT_EQ(result.state.b, 5);
  EXPECT_EQ(result.history.collect("a")[0], (Values{11, 12}));
  EXPECT_THROW(result.history.collect("start"), Error);

  // Without a batch on_start does not run, but on_end does.
  order.clear();
  (void)loop(Counts{}, Ints{}, {{every(1), step}},
             {.on_start = options().on_start, .on_end = {[&](Counts&) { order += 'e'; }}});
  EXPECT_EQ(order, "e");
}

TEST(Loop, OnEndMayTakeOnlyElapsed) {
  std::int64_t started = -1, ended = -1;
  const auto result = loop(Counts{}, iota(9), {},
                           {.stop = at(3),
                            .on_start = {[&](const Elapsed& e) { started = e.steps; }},
                            .on_end = {[&](const Elapsed& e, const Logs&) { ended = e.steps; }}});
  EXPECT_EQ(started, 0);
  EXPECT_EQ(ended, 3);
  EXPECT_FALSE(result.elapsed.last);
}

// A callback with its own on_start and on_end.
struct Logger {
  std::string* text;
  void on_start(const Counts& s) { *text += "start" + std::to_string(s.a) + " "; }
  void operator()(const Elapsed& e, const Logs&) { *text += std::to_string(e.steps) + " "; }
  void on_end(const Elapsed& e) { *text += "end" + std::to_string(e.steps); }
};

TEST(Loop, CallbacksWithOnStartAndOnEnd) {
  std::string text;
  (void)loop(Counts{7, 0}, iota(3), {{every(2), Logger{&text}}});
  EXPECT_EQ(text, "start7 0 2 end3");
}

TEST(Loop, ThrowingCallbackIsNamedAndNothingIsLost) {
  std::string text;
  int ended = 0;
  bool thrown = false;
  try {
    (void)loop(Counts{}, Counting(),
               {{every(1),
                 [](Counts& s) {
                   ++s.a;
                   return logs().add_metric("a", s.a);
                 }},
                {every(1), Logger{&text}},
                {every(3),
                 [](const Elapsed& e, Counts&) {
                   if (e.steps == 6) throw std::runtime_error("the disk is full");
                 }}},
               {.on_end = {[&](Counts&) { ++ended; }}});
  } catch (LoopError& error) {
    thrown = true;
    EXPECT_EQ(std::string(error.what()), "task 3, every(3): a function, at step 6: the disk is full");
    EXPECT_EQ(error.code(), ErrorCode::callback);
    EXPECT_EQ(error.history().collect("a")[0], (Values{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(error.elapsed().steps, 6);
    ASSERT_NE(error.state<Counts>(), nullptr);
    EXPECT_EQ(error.state<Counts>()->a, 7);  // the failed step had already begun
    EXPECT_EQ(error.state<int>(), nullptr);
    EXPECT_THROW(std::rethrow_exception(error.cause()), std::runtime_error);
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(text, "start0 0 1 2 3 4 5 end6");
}

TEST(Loop, ThrowingObserverIsNotCalledAgainAndOthersSeeEverything) {
  std::string text;
  int calls = 0;
  try {
    (void)loop(Counts{}, Counting(),
               {{every(1),
                 [&](const Elapsed& e) {
                   ++calls;
                   if (e.steps == 2) throw Error(ErrorCode::io, "no space");
                 }},
                {every(1), Logger{&text}}});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_EQ(std::string(error.what()), "task 1, every(1): a function, at step 2: no space");
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(text, "start0 0 1 2 end3");
}

TEST(Loop, StepWithThrowingObserverIsCounted) {
  try {
    (void)loop(
        0, iota(10),
        {{every(1), [](int& n) { return logs().add_metric("n", ++n); }}, {every(1), [](const Elapsed& e) {
                                                                            if (e.steps == 5)
                                                                              throw std::runtime_error("disk full");
                                                                          }}});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(*error.state<int>(), 6);
    EXPECT_EQ(error.elapsed().steps, 6);
    EXPECT_EQ(error.history().size(), 6u);
    EXPECT_NE(std::string(error.what()).find("at step 5"), std::string::npos) << error.what();
  }
}

TEST(Loop, ErrorCarriesOutputsAndMetadata) {
  try {
    (void)loop(0, iota(10), {{every(1), [](LoopState<int, int>& l) {
                                if (l.elapsed.steps == 4) throw std::runtime_error("mine");
                                l.metadata = static_cast<int>(l.elapsed.steps);
                                l.logs.add_entry("outputs", "n", 3);
                              }}});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(error.outputs().size(), 4u);
    EXPECT_EQ(std::any_cast<int>(error.metadata()), 3);
  }
}

TEST(Loop, NoStepRunsAfterOnStartStops) {
  int calls = 0;
  const auto result = loop(0, iota(10), {{every(1), [&](int&) { ++calls; }}},
                           {.on_start = {[](LoopState<int, int>& l) { l.stop_iteration = true; }}});
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(result.elapsed.steps, 0);
}

TEST(Loop, InvalidStepsPerExecutionLosesNothing) {
  try {
    (void)loop(7, iota(10), {}, {.steps_per_execution = -1});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(*error.state<int>(), 7);
  }
}

TEST(Loop, EachBatchIsCreatedOnce) {
  int made = 0;
  auto batches = iota(10) | std::views::transform([&](int i) {
                   ++made;
                   return i;
                 });
  std::vector<int> seen;
  const auto run = [&](const Schedule& when, LoopOptions<int, int> options = {}) {
    made = 0;
    (void)loop(0, batches, {{when, [&](const int& batch, int&) { seen.push_back(batch); }}}, std::move(options));
    return made;
  };
  EXPECT_EQ(run(every(1)), 10);
  EXPECT_EQ(seen, iota(10));
  EXPECT_EQ(run(every(7)), 10);               // quiet steps in between
  EXPECT_EQ(run(every({.samples = 4})), 10);  // they end before a batch that was already fetched
  EXPECT_EQ(run(every(5) | last()), 10);
  EXPECT_EQ(run(every(1), {.stop = at(4)}), 4);
}

TEST(Loop, LastWithStatefulSchedules) {
  const Schedule when = every({.samples = 3}) & last();
  std::vector<int> due;
  const auto run = [&](int size, Period stop) {
    due.clear();
    (void)loop(0, iota(size), {{when, [&](const Elapsed& e, int&) { due.push_back(static_cast<int>(e.steps)); }}},
               {.stop = stop});
    return due;
  };
  EXPECT_EQ(run(100, at(10)), (std::vector<int>{9}));
  EXPECT_EQ(run(10, {}), (std::vector<int>{9}));
  EXPECT_EQ(run(11, {}), (std::vector<int>{}));
}

struct Throwing {
  int* ended;
  void operator()(Counts&) {}
  void on_end(Counts&) {
    ++*ended;
    throw std::runtime_error("at the end");
  }
};

TEST(Loop, ThrowingOnEndDoesNotPreventOthers) {
  int ended = 0;
  std::string text;
  try {
    (void)loop(Counts{}, iota(2),
               {{every(1), Throwing{&ended}}, {every(1), Throwing{&ended}}, {every(1), Logger{&text}}},
               {.on_end = {[&](Counts&) { ++ended; }}});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_NE(std::string(error.what()).find("Throwing"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("task 1"), std::string::npos) << error.what();
  }
  EXPECT_EQ(ended, 3);
  EXPECT_EQ(text, "start0 0 1 end2");
}

// 0, 1, 2, and then an error.
struct Failing : Counting {
  struct Iterator : Counting::Iterator {
    using Counting::Iterator::Iterator;
    Iterator& operator++() {
      if (**this == 2) throw std::runtime_error("cannot be read");
      Counting::Iterator::operator++();
      return *this;
    }
    void operator++(int) { ++*this; }
  };
  Iterator begin() { return Iterator(&pulled); }
};

TEST(Loop, FailingDatasetLosesNoStep) {
  try {
    (void)loop(Counts{}, Failing(), {{every(1), [](Counts& s) { return logs().add_metric("a", ++s.a); }}});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(std::string(error.what()), "the dataset, at step 3: cannot be read");
    EXPECT_EQ(error.history().collect("a")[0], (Values{1, 2, 3}));
    EXPECT_EQ(error.elapsed().steps, 3);
  }
}

// Errors name what failed and the step.
TEST(Loop, ErrorsNameTheFailingPart) {
  const auto what = [](auto&& dataset, std::vector<Task<int, int>> tasks, LoopOptions<int, int> options = {}) {
    try {
      (void)loop(0, dataset, tasks, std::move(options));
    } catch (const LoopError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto fail_at = [](int step) {
    return [step](int i) {
      if (i == step) throw std::runtime_error("mine");
      return i;
    };
  };
  const auto schedule = [](const Elapsed& e) -> bool {
    if (e.steps == 3) throw std::runtime_error("mine");
    return false;
  };
  EXPECT_EQ(what(iota(9), {{every(1), [](int&) {}}, {schedule, [](int&) {}}}),
            "task 2, a function: its schedule, at step 3: mine");
  for (const std::int64_t each : {1, 100}) {  // with a due task, and in steps that are only counted
    EXPECT_EQ(what(iota(9) | std::views::transform(fail_at(4)), {{every(each), [](int&) {}}}),
              "the dataset, at step 4: mine");
    EXPECT_EQ(what(iota(9), {{every(each), [](int&) {}}}, {.batch_size_fn = fail_at(5)}),
              "batch_size_fn, at step 5: mine");
    EXPECT_EQ(what(Failing(), {{every(each), [](int&) {}}}), "the dataset, at step 3: cannot be read");
  }
}

// Batches that cannot be copied and do not outlive their iterator work like any others.
TEST(Loop, MoveOnlyBatches) {
  std::vector<std::unique_ptr<int>> batches;
  for (int i = 0; i < 5; ++i) batches.push_back(std::make_unique<int>(i));
  const auto result = loop(0, batches,
                           {{every(1), [](int& s, const std::unique_ptr<int>& batch) { s += *batch; }},
                            {every(3) | last(), [](int& s, const std::unique_ptr<int>& batch) { s += 100 * *batch; }}});
  EXPECT_EQ(result.state, 10 + 100 * (0 + 3 + 4));
}

TEST(Loop, EmptyDatasetWithRequestedStepsIsAnError) {
  int ended = 0;
  try {
    (void)loop(Counts{}, Ints{}, {}, {.stop = at(5), .on_end = {[&](Counts&) { ++ended; }}});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("empty"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("5"), std::string::npos);
  }
  EXPECT_EQ(ended, 1);
}

TEST(Loop, SignalsFinishTheStep) {
  for (const int signal : {SIGINT, SIGTERM}) {
    int ended = 0;
    const auto result = loop(Counts{}, Counting(),
                             {{when({3}), [&](Counts&) { std::raise(signal); }},
                              {every(1), [](Counts& s) { return logs().add_metric("a", ++s.a); }}},
                             {.on_end = {[&](Counts&) { ++ended; }}});
    EXPECT_EQ(result.interrupted, signal);
    EXPECT_EQ(result.ended, StopReason::interrupted);
    EXPECT_EQ(result.elapsed.steps, 4);
    EXPECT_EQ(result.history.size(), 4u);
    EXPECT_EQ(ended, 1);
  }
  EXPECT_EQ(loop(Counts{}, iota(2), {}).interrupted, 0);
}

// For example, a launcher forwards a signal that the whole job receives, or a scheduler asks again.
TEST(Loop, RepeatedSignalsAreAccepted) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto result = loop(0, iota(5), {{when({1}), [&](int&) {
                                             for (const int each : {signal, signal, SIGTERM, SIGINT}) std::raise(each);
                                           }}});
    EXPECT_EQ(result.interrupted, signal) << "the first";
    EXPECT_EQ(result.elapsed.steps, 2);
  }
}

int caught = 0;
// A second interrupt by the user goes to the program's own handler.
TEST(Loop, SecondUserInterruptHasItsOriginalEffect) {
  caught = 0;
  const auto before = std::signal(SIGINT, [](int) { ++caught; });
  const auto result = loop(0, iota(5), {{when({1}), [](int&) {
                                           std::raise(SIGINT);
                                           std::this_thread::sleep_for(std::chrono::milliseconds(510));
                                           std::raise(SIGTERM);
                                           EXPECT_EQ(caught, 0);
                                           std::raise(SIGINT);
                                           EXPECT_EQ(caught, 1);
                                         }}});
  EXPECT_EQ(result.interrupted, SIGINT);
  EXPECT_EQ(result.elapsed.steps, 2);
  std::signal(SIGINT, before);
  caught = 0;
}

// The previous handlers are restored, and a loop that does not catch signals leaves them alone.
TEST(Loop, SignalHandlersAreRestored) {
  const auto before = std::signal(SIGINT, [](int) { ++caught; });
  (void)loop(Counts{}, iota(2), {});
  std::raise(SIGINT);
  EXPECT_EQ(caught, 1);
  const auto result =
      loop(Counts{}, iota(3), {{when({0}), [](Counts&) { std::raise(SIGINT); }}}, {.catch_signals = false});
  EXPECT_EQ(caught, 2);
  EXPECT_EQ(result.interrupted, 0);
  EXPECT_EQ(result.elapsed.steps, 3);
  std::signal(SIGINT, before);
}

// A thread may keep something else than its stack in the stack pointer.
TEST(Loop, SignalHandlersRunOnTheThreadsAlternateStack) {
  std::vector<char> memory(1 << 16, 'x');
  stack_t own{}, before{};
  own.ss_sp = memory.data();
  own.ss_size = memory.size();
  ASSERT_EQ(sigaltstack(&own, &before), 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    std::fill(memory.begin(), memory.end(), 'x');
    const auto result = loop(0, iota(5), {{when({1}), [&](int&) { std::raise(signal); }}});
    EXPECT_EQ(result.interrupted, signal);
    EXPECT_NE(std::count(memory.begin(), memory.end(), 'x'), std::ssize(memory));
  }
  EXPECT_EQ(sigaltstack(&before, nullptr), 0);
}

// An inner loop that would catch signals cannot override an outer loop that leaves them to the program.
TEST(Loop, OutermostLoopDecidesAboutSignals) {
  caught = 0;
  const auto before = std::signal(SIGINT, [](int) { ++caught; });
  const auto result = loop(
      0, iota(3),
      {{every(1),
        [](int& s) {
          s += static_cast<int>(
              loop(0, iota(5), {{when({1}), [](int&) { std::raise(SIGINT); }}}, {.catch_signals = true}).elapsed.steps);
        }}},
      {.catch_signals = false});
  std::signal(SIGINT, before);
  EXPECT_EQ(caught, 3);
  EXPECT_EQ(result.state, 15);
  EXPECT_EQ(result.interrupted, 0);
}

TEST(Loop, SignalInAnInnerLoopEndsTheOuterLoop) {
  const auto result =
      loop(Counts{}, Counting(),
           {{every(1), [](Counts& s) {
               s.a += static_cast<int>(
                   loop(Counts{}, iota(5), {{when({1}), [](Counts&) { std::raise(SIGINT); }}}).elapsed.steps);
             }}});
  EXPECT_EQ(result.state.a, 2);
  EXPECT_EQ(result.elapsed.steps, 1);
  EXPECT_EQ(result.interrupted, SIGINT);
}

TEST(Loop, UserDefinedBatchSizes) {
  const auto result = loop(Counts{}, iota(4), {}, {.batch_size_fn = [](const int& batch) { return 10 * batch; }});
  EXPECT_EQ(result.elapsed.samples, 60);
}

TEST(Loop, MetadataPassesThrough) {
  auto result = loop(Counts{}, iota(3),
                     {{every(1), [](LoopState<Counts, int>& l) { l.metadata = std::any_cast<int>(l.metadata) + 1; }}},
                     {.metadata = 4});
  EXPECT_EQ(std::any_cast<int>(result.metadata), 7);
}

TEST(Loop, AccumulatedLogs) {
  std::vector<double> seen;
  auto first = loop(Counts{}, iota(1), {{every(1), [](Counts&) { return logs().add_metric("old", 1); }}});
  (void)loop(
      Counts{}, iota(4),
      {{every(2), [](const Elapsed& e, Counts&) { return logs().add_metric("rare", static_cast<double>(e.steps)); }},
       {every(1),
        [&](LoopState<Counts, int>& l) {
          seen.push_back(l.accumulated_logs().entry_value("rare"));
          EXPECT_THROW(l.accumulated_logs().entry_value("old"), Error);
        }}},
      {.history = std::move(first.history)});
  EXPECT_EQ(seen, (Values{0, 0, 2, 2}));
}

TEST(Loop, OptionalResults) {
  const auto result = loop(Counts{}, iota(3), {{every(1), [](const Elapsed& e, const Counts& s) {
                                                  std::optional<Logs> l;
                                                  if (e.steps == 1) l = logs().add_metric("a", 1);
                                                  std::optional<Counts> next;
                                                  if (e.steps == 2) next = Counts{s.a + 5, 0};
                                                  return std::tuple{logs().add_output("o", 2), l, next};
                                                }}});
  EXPECT_EQ(result.state.a, 5);
  EXPECT_EQ(result.history.collect("steps", "a")[0], Values{1});
  EXPECT_EQ(result.outputs.size(), 3u);
}

// every(5 samples) | every(7), cut anywhere: the parts are due at the same steps as the whole.
TEST(Loop, ContinuedLoopMissesAndRepeatsNothing) {
  const auto fired = [](std::int64_t cut) {
    Steps steps;
    const std::vector<Task<Counts, int>> tasks{{every({.samples = 5}) | every(7), note_steps(steps)}};
    const LoopOptions<Counts, int> defaults{.batch_size_fn = [](const int&) { return 2; }};
    LoopOptions<Counts, int> first = defaults, second = defaults;
    first.stop = at(cut);
    const auto result = loop(Counts{}, Counting(), tasks, std::move(first));
    second.stop = at(40);
    second.elapsed = result.elapsed;
    (void)loop(Counts{}, Counting(), tasks, std::move(second));
    return steps;
  };
  const Steps whole = fired(40);
  for (std::int64_t cut = 0; cut < 40; ++cut) EXPECT_EQ(fired(cut), whole) << "cut at " << cut;
}

}  // namespace
}  // namespace giro
