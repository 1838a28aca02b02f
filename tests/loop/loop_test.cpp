#include <giro/loop/loop.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <giro/loop/batch.h>
#include <giro/loop/log_ring.h>

#include "tests/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
using Values = std::vector<double>;
using Ints = std::vector<int>;

struct Count {
  int a = 0, b = 0;
};

Ints iota(int size) {
  Ints values;
  for (int i = 0; i < size; ++i) values.push_back(i);
  return values;
}

// 0, 1, 2, ... without end, and how many of them were asked for.
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

TEST(Loop, TasksRunWhenTheyAreDue) {
  const auto [state, history, elapsed] =
      loop(Count{}, iota(10), {{every(1), [](Count& s) { ++s.a; }}, {every(2), [](Count& s) { ++s.b; }}});
  EXPECT_EQ(state.a, 10);
  EXPECT_EQ(state.b, 5);
  EXPECT_EQ(history.size(), 0u);
  EXPECT_EQ(elapsed.steps, 10);
  EXPECT_EQ(elapsed.samples, 10);
}

TEST(Loop, LogsWithoutState) {
  const auto [state, history, elapsed] = loop(0, Counting(),
                                              {{every(1), [](int& s) {
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

// A checkpoint as a barrier: it sees the state, and the history up to the step before.
TEST(Loop, ACheckpointEveryTwoSteps) {
  std::vector<std::pair<std::int64_t, int>> saved;
  const auto checkpoint = [&](const Elapsed& e, const Count& s) { saved.emplace_back(e.steps, s.a); };
  const auto step = [](Count& s) {
    ++s.a;
    return logs().add_metric("a", s.a);
  };
  const auto [state, history, elapsed] = loop(Count{}, iota(3), {{every(1), step}, {every(2), checkpoint}});
  EXPECT_EQ(saved, (std::vector<std::pair<std::int64_t, int>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(history.size(), 3u);
  EXPECT_EQ(history.collect("steps")[0], (Values{0, 1, 2}));
}

TEST(Loop, CallbacksOfATaskRunInOrder) {
  std::string order;
  const auto note = [&](char c) { return [&order, c](Count&) { order += c; }; };
  loop(Count{}, iota(2), {{every(1), {note('a'), note('b')}}, {every(2), note('c')}, {every(1), {note('d')}}});
  EXPECT_EQ(order, "abcdabd");
}

TEST(Loop, EqualSchedulesDoNotCollide) {
  int runs = 0;
  const Schedule one = every(1);
  loop(Count{}, iota(3), {{one, [&](Count&) { ++runs; }}, {one, [&](Count&) { ++runs; }}});
  EXPECT_EQ(runs, 6);
}

TEST(Loop, TheCallersTasksAreLeftAlone) {
  const std::vector<Task<Count, int>> tasks{{every({.samples = 2}), [n = 0](Count& s) mutable { s.a = ++n; }}};
  for (int i = 0; i < 2; ++i) {
    const auto result = loop(Count{}, iota(7), tasks);
    EXPECT_EQ(result.state.a, 3);  // at 2, 4 and 6 samples
  }
}

TEST(Loop, LaterLogsWin) {
  const auto result = loop(0, iota(1), {{every(1), [](int& s) { return std::pair{logs().add_metric("a", 1), s + 1}; }},
                                        {every(1), [](const Logs& l, int& s) {
                                           return logs().add_metric("a", l.entry_value("a") + s);
                                         }}});
  EXPECT_EQ(result.history.collect("a")[0], Values{2});
}

TEST(Loop, StopIterationSkipsTheRest) {
  std::string order;
  const auto [state, history, elapsed] =
      loop(Count{}, Counting(),
           {{every(1),
             {[&](Count&) {
                order += 'a';
                return logs().add_metric("a", 1);
              },
              [&](LoopState<Count, int>& l) {
                order += 'b';
                l.stop_iteration = l.elapsed.steps == 2;
              },
              [&](Count&) { order += 'c'; }}},
            {every(1), [&](const Elapsed&) { order += 'o'; }},
            {every(1), [&](Count&) { order += 'd'; }}});
  // The step is counted and committed; the observer of the last step comes behind the stop and is skipped too.
  EXPECT_EQ(order, "abcdo" "abcdo" "ab");
  EXPECT_EQ(elapsed.steps, 3);
  EXPECT_EQ(history.size(), 3u);
}

TEST(Loop, ObserversSeeTheWholeLogsAfterTheStep) {
  std::vector<std::string> order;
  std::vector<double> seen;
  loop(0, iota(3),
       {{every(1), [&](const Elapsed& e, const Logs& l) {
           order.push_back("observer " + std::to_string(e.steps));
           seen.push_back(l.entry_value("late"));
         }},
        {every(1), [&](int& s) {
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
  loop(0, iota(4),
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

TEST(Loop, NoBatchIsPulledThatNoStepSees) {
  Counting dataset;
  loop(0, dataset, {}, {.stop = at(5)});
  EXPECT_EQ(dataset.pulled, 5);

  Counting stopped;
  loop(0, stopped, {{every(1), [](LoopState<int, int>& l) { l.stop_iteration = true; }}});
  EXPECT_EQ(stopped.pulled, 1);

  Counting past;
  const auto result = loop(0, past, {{every(1), [](int& s) { ++s; }}}, {.stop = at(5), .elapsed = {.steps = 5}});
  EXPECT_EQ(past.pulled, 0);
  EXPECT_EQ(result.state, 0);
  EXPECT_EQ(result.elapsed.steps, 5);
}

TEST(Loop, AnEmptyDataset) {
  const auto result = loop(1, Ints{}, {{every(1), [](int& s) { ++s; }}});
  EXPECT_EQ(result.state, 1);
  EXPECT_EQ(result.elapsed.steps, 0);
}

TEST(Loop, ContinuesWhereAnotherLeftOff) {
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
  const auto samples_of = [](const auto& batch) {
    return loop(0, std::vector(5, batch), {}).elapsed.samples;
  };
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

TEST(Loop, TheFirstStepIsStepZero) {
  loop(0, iota(1), {{every(1), [](const Elapsed& e, int&) {
                       EXPECT_EQ(e.steps, 0);
                       EXPECT_EQ(e.samples, 0);
                       EXPECT_NEAR(e.time(), 0, 1e-3);
                       EXPECT_NEAR(e.date, Elapsed::now(), 1.0);
                     }}});
}

TEST(Loop, BatchesOfAnyType) {
  std::string text;
  loop(0, std::vector<std::string>{"a", "bc"}, {{every(1), [&](const std::string& batch, int&) { text += batch; }}});
  EXPECT_EQ(text, "abc");
  int sum = 0;
  loop(0, std::views::iota(1, 4) | std::views::transform([](int i) { return 2.0 * i; }),
       {{every(1), [&](const double& batch) { sum += static_cast<int>(batch); }}});
  EXPECT_EQ(sum, 12);
}

TEST(Loop, MoveOnlyStates) {
  auto result = loop(std::make_unique<int>(4), iota(3), {{every(1), [](std::unique_ptr<int>& s) { ++*s; }}});
  EXPECT_EQ(*result.state, 7);
}

TEST(Loop, WhatACallbackThrowsPassesThrough) {
  EXPECT_THROW(loop(0, iota(3), {{every(1), [](int&) { throw std::runtime_error("mine"); }}}), std::runtime_error);
}

}  // namespace
}  // namespace giro
