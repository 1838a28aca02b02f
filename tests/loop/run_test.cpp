#include <giro/loop/run.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/loop.h>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
using Values = std::vector<double>;
using RunTasks = std::vector<Task<int, int>>;

auto count_in_run() {
  return [](int& s) { return logs().add_metric("n", ++s); };
}

TEST(Run, AdvancesInspectsAndAdvancesAgain) {
  std::string order;
  auto data = std::views::iota(0, 10);
  const RunTasks tasks{{every(1), [&](int& s, const int& batch) {
                          order += std::to_string(batch);
                          return logs().add_metric("n", ++s);
                        }}};
  giro::Run run(0, data, tasks, {.on_start = {[&](int&) { order += 's'; }}, .on_end = {[&](int&) { order += 'e'; }}});
  EXPECT_EQ(run.elapsed().steps, 0);
  EXPECT_EQ(run.advance(at(3)), StopReason::reached);
  EXPECT_EQ(run.state(), 3);
  EXPECT_EQ(run.elapsed().steps, 3);
  EXPECT_EQ(run.history().collect("n")[0], (Values{1, 2, 3}));
  EXPECT_EQ(run.advance(at(3)), StopReason::reached);  // already there
  EXPECT_EQ(run.advance(at(2)), StopReason::reached);
  EXPECT_EQ(run.elapsed().steps, 3);
  run.state() = 100;
  EXPECT_EQ(run.advance(at({.samples = 5})), StopReason::reached);
  EXPECT_EQ(run.advance(), StopReason::dataset_ended);
  EXPECT_EQ(order, "s0123456789");
  auto [state, history, elapsed] = run.finish();
  EXPECT_EQ(order, "s0123456789e");
  EXPECT_EQ(state, 107);
  EXPECT_EQ(history.size(), 10u);
  EXPECT_EQ(elapsed.steps, 10);
}

TEST(Run, ReportsWhyItReturned) {
  auto data = std::views::iota(0, 10);
  const auto why = [&](const RunTasks& tasks, LoopOptions<int, int> options, const Period& until = {}) {
    giro::Run run(0, data, tasks, std::move(options));
    const StopReason result = run.advance(until);
    EXPECT_EQ(run.finish().ended, result);
    return result;
  };
  EXPECT_EQ(why({}, {}), StopReason::dataset_ended);
  EXPECT_EQ(why({}, {.stop = at(10)}), StopReason::stopped);
  EXPECT_EQ(why({}, {.stop = at(4)}, at(9)), StopReason::stopped);
  EXPECT_EQ(why({}, {.stop = at(9)}, at(4)), StopReason::reached);
  EXPECT_EQ(why({{every(3), [](LoopState<int, int>& l) { l.stop_iteration = l.elapsed.steps == 3; }}}, {}),
            StopReason::stopped);
  EXPECT_EQ(why({{every(3), [](int&) { std::raise(SIGINT); }}}, {}), StopReason::interrupted);
  auto none = std::views::iota(0, 0);
  giro::Run empty(0, none, RunTasks{});
  EXPECT_EQ(empty.advance(at(1)), StopReason::dataset_ended);
}

TEST(Run, CannotAdvanceAfterItsEnd) {
  auto data = std::views::iota(0, 4);
  giro::Run run(0, data, RunTasks{{every(1), count_in_run()}});
  EXPECT_EQ(run.advance(), StopReason::dataset_ended);
  expect_error(ErrorCode::invalid_argument, {"advance", "ended", "step 4"}, [&] { (void)run.advance(); });
  EXPECT_EQ(run.finish().state, 4);
  expect_error(ErrorCode::invalid_argument, {"finish"}, [&] { (void)run.finish(); });

  giro::Run failing(0, data, RunTasks{{every(1), [](int&) { throw std::runtime_error("mine"); }}});
  EXPECT_THROW((void)failing.advance(), LoopError);
  expect_error(ErrorCode::invalid_argument, {"advance", "step 0"}, [&] { (void)failing.advance(); });
}

// Callbacks due by last() run once if a run is finished before it has ended.
TEST(Run, LastRunsWhenFinished) {
  auto data = std::views::iota(0, 10);
  std::vector<std::int64_t> steps;
  const RunTasks tasks{{every(1), count_in_run()}, {every(4) | last(), [&](const Elapsed& e, int& s) {
                                                      steps.push_back(e.steps);
                                                      EXPECT_EQ(s, e.steps + 1);
                                                    }}};
  for (const std::int64_t until : {5, 6}) {
    steps.clear();
    giro::Run run(0, data, tasks);
    EXPECT_EQ(run.advance(at(until)), StopReason::reached);
    const auto result = run.finish();
    EXPECT_EQ(result.elapsed.steps, until);
    EXPECT_EQ(steps, (until == 5 ? std::vector<std::int64_t>{0, 4} : std::vector<std::int64_t>{0, 4, 5}));
  }
}

TEST(Run, ErrorCarriesStateAndHistory) {
  auto data = std::views::iota(0, 10);
  giro::Run run(0, data, RunTasks{{every(1), count_in_run()}, {every(1), [](const Elapsed& e, int&) {
                                                                 if (e.steps == 6) throw std::runtime_error("mine");
                                                               }}});
  EXPECT_EQ(run.advance(at(5)), StopReason::reached);
  try {
    (void)run.advance();
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(error.elapsed().steps, 6);
    EXPECT_EQ(error.history().size(), 6u);
    EXPECT_EQ(*error.state<int>(), 7);
  }
}

// A run cut at its stops makes the same calls as an uncut run, with a new history for each piece.
TEST(Run, ContinuesFromItsStop) {
  auto data = std::views::iota(0, 10);
  for (const bool quiet : {false, true}) {
    for (int cut = 1; cut <= 10; ++cut) {
      std::string order;
      const RunTasks tasks{{quiet ? every(4) : every(1), [&](int& s, const int& batch) {
                              order += std::to_string(batch);
                              return logs().add_metric("n", ++s);
                            }}};
      giro::Run run(
          0, data, tasks,
          {.stop = at(cut), .on_start = {[&](int&) { order += 's'; }}, .on_end = {[&](int&) { order += 'e'; }}});
      EXPECT_EQ(run.advance(), StopReason::stopped);
      const std::size_t before = run.history().size();
      const int state = run.state();
      EXPECT_EQ(before, static_cast<std::size_t>(state));
      run.extend(at(cut));
      EXPECT_EQ(run.advance(), StopReason::stopped);  // already there
      run.extend({});
      EXPECT_EQ(run.history().size(), 0u);
      if (cut < 9) {
        EXPECT_EQ(run.advance(at(cut + 1)), StopReason::reached);
      }
      EXPECT_EQ(run.advance(), StopReason::dataset_ended);
      const auto result = run.finish();
      EXPECT_EQ(order, quiet ? "s048e" : "s0123456789e");
      EXPECT_EQ(result.state, quiet ? 3 : 10);
      EXPECT_EQ(result.history.size(), static_cast<std::size_t>(result.state - state));
      EXPECT_EQ(result.elapsed.steps, 10);
      EXPECT_EQ(result.elapsed.samples, 10);
    }
  }
}

// Each stop is a last step; last() gets the batch of that step.
TEST(Run, LastRunsAtEachStop) {
  auto data = std::views::iota(0, 10);
  std::vector<int> batches;
  giro::Run run(0, data, RunTasks{{last(), [&](const int& batch) { batches.push_back(batch); }}}, {.stop = at(3)});
  EXPECT_EQ(run.advance(), StopReason::stopped);
  run.extend(at({.samples = 7}));
  EXPECT_FALSE(run.elapsed().last);
  EXPECT_EQ(run.advance(at(5)), StopReason::reached);
  EXPECT_EQ(run.advance(), StopReason::stopped);
  (void)run.finish();
  EXPECT_EQ(batches, (std::vector<int>{2, 6}));
}

TEST(Run, ContinuesOnlyFromAStop) {
  auto data = std::views::iota(0, 10);
  const auto expect = [](auto& run, const std::string& found) {
    expect_error(ErrorCode::invalid_argument, {"extend", found}, [&] { run.extend(at(20)); });
  };
  giro::Run run(0, data, RunTasks{}, {.stop = at(10)});
  expect(run, "has not, at step 0");
  EXPECT_EQ(run.advance(at(4)), StopReason::reached);
  expect(run, "has not, at step 4");
  EXPECT_EQ(run.advance(), StopReason::stopped);
  run.extend(at(15));
  run.extend(at(20));
  EXPECT_EQ(run.advance(), StopReason::dataset_ended);
  expect(run, "has not, at step 10");
  (void)run.finish();
  expect(run, "is finished");

  giro::Run by_callback(0, data, RunTasks{{every(1), [](LoopState<int, int>& l) { l.stop_iteration = true; }}});
  EXPECT_EQ(by_callback.advance(), StopReason::stopped);
  expect(by_callback, "has not, at step 1");
}

// A single-pass dataset: making the batch after the third fails.
class FailsAfterThree {
 public:
  struct Iterator {
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    int operator*() const { return batch; }
    Iterator& operator++() {
      if (++batch == 3) throw std::runtime_error("no fourth batch");
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return false; }
    int batch = 0;
  };
  Iterator begin() const { return {}; }
  std::default_sentinel_t end() const { return {}; }
};

// A dataset that fails after the stop does not affect the steps before it.
TEST(Run, FetchesNextBatchOnlyWhenContinued) {
  FailsAfterThree data;
  giro::Run run(0, data, RunTasks{{every(1), count_in_run()}}, {.stop = at(3)});
  EXPECT_EQ(run.advance(), StopReason::stopped);
  run.extend(at(4));
  EXPECT_EQ(run.state(), 3);
  try {
    (void)run.advance();
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_STREQ(error.what(), "the dataset, at step 3: no fourth batch");
    EXPECT_EQ(*error.state<int>(), 3);
    EXPECT_EQ(error.elapsed().steps, 3);
    EXPECT_EQ(error.history().size(), 0u);
  }
}

// A signal that arrives while a run waits for its queued work is reported.
TEST(Run, SignalWhileItSettles) {
  auto data = std::views::iota(0, 10);
  bool raised = false;
  giro::Run run(0, data, RunTasks{{every(1), count_in_run()}, {every(1), [&](const Elapsed& e, const Logs&) {
                                                                 if (e.steps == 2 && !std::exchange(raised, true)) {
                                                                   std::raise(SIGINT);
                                                                 }
                                                               }}});
  EXPECT_EQ(run.advance(at(3)), StopReason::interrupted);
  EXPECT_EQ(run.finish().interrupted, SIGINT);
}

// Saves at the end of its step if a signal asks for it.
struct Saver {
  std::vector<std::int64_t>* saved;
  void operator()(LoopState<int, int>&) {}
  void on_save(LoopState<int, int>& loop) {
    loop.at_step_end([saved = saved, &loop] { saved->push_back(loop.completed().steps); });
  }
};

// A signal that ends a run while it waits at a pause saves it, and callbacks of last() run.
TEST(Run, SignalWhileItSettlesSaves) {
  auto data = std::views::iota(0, 10);
  std::vector<std::int64_t> saved, last_steps;
  giro::Run run(0, data,
                RunTasks{{every(1), count_in_run()},
                         {every(1),
                          [](const Elapsed& e, const Logs&) {
                            if (e.steps == 2) std::raise(SIGTERM);
                          }},
                         {every(100), Saver{&saved}},
                         {last(), [&](const Elapsed& e, int&) { last_steps.push_back(e.steps); }}});
  EXPECT_EQ(run.advance(at(3)), StopReason::interrupted);
  const auto result = run.finish();
  EXPECT_EQ(result.interrupted, SIGTERM);
  EXPECT_EQ(result.elapsed.steps, 3);
  EXPECT_EQ(saved, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(last_steps, (std::vector<std::int64_t>{2}));
}

// A signal that comes while a run waits after its last step interrupts the steps that it is extended by.
TEST(Run, SignalAtItsStopIsKept) {
  auto data = std::views::iota(0, 10);
  const RunTasks tasks{{every(1), count_in_run()}, {every(1), [](const Elapsed& e, const Logs&) {
                                                      if (e.steps == 2) std::raise(SIGTERM);
                                                    }}};
  giro::Run run(0, data, tasks, {.stop = at(3)});
  EXPECT_EQ(run.advance(), StopReason::stopped);
  EXPECT_EQ(run.interrupted(), SIGTERM);
  run.extend(at(9));
  EXPECT_EQ(run.advance(), StopReason::interrupted);
  EXPECT_EQ(run.finish().elapsed.steps, 4);
}

TEST(Run, ErrorOfLastAfterAPauseCountsAllSteps) {
  auto data = std::views::iota(0, 10);
  giro::Run run(0, data,
                RunTasks{{every(1), count_in_run()}, {last(), [](int&) { throw std::runtime_error("mine"); }}});
  EXPECT_EQ(run.advance(at(5)), StopReason::reached);
  try {
    (void)run.finish();
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(error.elapsed().steps, 5);
    EXPECT_EQ(error.elapsed().samples, 5);
    EXPECT_EQ(*error.state<int>(), 5);
  }
}

// A single-pass dataset that returns references to one batch, and keeps the last.
class OneBatch {
 public:
  struct Iterator {
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    const int& operator*() const { return *batch; }
    Iterator& operator++() {
      if (*batch < 3) ++*batch;
      ended = ++steps == 4;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return ended; }
    int* batch;
    int steps = 0;
    bool ended = false;
  };
  Iterator begin() { return {&batch_}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  int batch_ = 0;
};

}  // namespace
template <>
inline constexpr bool keeps_last_batch<OneBatch> = true;
namespace {

// A function deferred to the end of a step never sees the batch of the next one.
TEST(Run, DeferredFunctionsSeeNoLaterBatch) {
  OneBatch data;
  std::vector<int> batches;
  giro::Run run(0, data, RunTasks{{every(1), [&](LoopState<int, int>& loop) {
                                     loop.at_step_end([&] { batches.push_back(loop.has_batch() ? loop.batch() : -1); });
                                   }}});
  EXPECT_EQ(run.advance(), StopReason::dataset_ended);
  EXPECT_EQ(batches, (std::vector<int>{-1, -1, -1, 3}));
}

// At most one batch that a dataset returns by value is alive, also in steps in which nothing is due and at a pause.
struct LiveBatch {
  explicit LiveBatch(int* count) : alive(count) { ++*alive; }
  LiveBatch(LiveBatch&& other) noexcept : alive(std::exchange(other.alive, nullptr)) {}
  ~LiveBatch() {
    if (alive != nullptr) --*alive;
  }
  int* alive;
};
TEST(Run, HoldsOneBatchAtATime) {
  int alive = 0, most = 0;
  auto data = std::views::iota(0, 10) | std::views::transform([&](int) {
                most = std::max(most, alive + 1);
                return LiveBatch(&alive);
              });
  giro::Run run(0, data, std::vector<Task<int, LiveBatch>>{{every(4), [](int& s, const LiveBatch&) { ++s; }}});
  EXPECT_EQ(run.advance(at(5)), StopReason::reached);
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(run.advance(), StopReason::dataset_ended);
  EXPECT_EQ(run.finish().state, 3);
  EXPECT_EQ(most, 1);
}

TEST(Run, ResultReportsTheSignal) {
  auto data = std::views::iota(0, 10);
  giro::Run run(0, data, RunTasks{{every(3), [](int&) { std::raise(SIGTERM); }}});
  EXPECT_EQ(run.advance(), StopReason::interrupted);
  EXPECT_EQ(run.finish().interrupted, SIGTERM);
}

// An arbiter has the last word on time, signals and stops.
struct Scripted final : Arbiter {
  double time = 1'000;
  int signal = 0;
  std::int64_t refuses_before = 0;
  double now() override { return time; }
  int interrupt() override { return signal; }
  bool stop(bool asked, const Elapsed& elapsed) override { return asked && elapsed.steps >= refuses_before; }
};

TEST(Run, DecisionsGoThroughItsArbiter) {
  auto data = std::views::iota(0, 1'000);
  const auto arbiter = std::make_shared<Scripted>();
  giro::Run timed(0, data, RunTasks{{every(1), [&](int&) { arbiter->time += 0.25; }}},
                  {.stop = at({.time = 10.0}), .arbiter = arbiter});
  EXPECT_EQ(timed.advance(), StopReason::stopped);
  EXPECT_GE(timed.elapsed().time(), 10);
  EXPECT_LE(timed.elapsed().steps, 41);

  arbiter->signal = SIGTERM;
  giro::Run interrupted(0, data, RunTasks{}, {.arbiter = arbiter});
  EXPECT_EQ(interrupted.advance(), StopReason::interrupted);
  EXPECT_EQ(interrupted.elapsed().steps, 1);
  EXPECT_EQ(interrupted.finish().interrupted, SIGTERM);

  arbiter->signal = 0;
  arbiter->refuses_before = 7;
  giro::Run stopped(0, data, RunTasks{{every(1), [](LoopState<int, int>& l) { l.stop_iteration = true; }}},
                    {.arbiter = arbiter});
  EXPECT_EQ(stopped.advance(), StopReason::stopped);
  EXPECT_EQ(stopped.elapsed().steps, 8);
}

// A refused stop skips nothing.
TEST(Run, CallbacksSkippedByARejectedStopRun) {
  auto data = std::views::iota(0, 10);
  const auto arbiter = std::make_shared<Scripted>();
  arbiter->refuses_before = 100;
  std::string order;
  const auto stop = [&](char name) {
    return [&order, name](LoopState<int, int>& l) {
      order += name;
      l.stop_iteration = true;
    };
  };
  giro::Run run(
      0, data,
      RunTasks{{every(5), {stop('a'), stop('b')}}, {every(1), [&](int&) { order += 'c'; }}, {every(5), stop('d')}},
      {.arbiter = arbiter});
  EXPECT_EQ(run.advance(), StopReason::dataset_ended);
  EXPECT_EQ(order, "abcdccccabcdcccc");
}

// Each time limit is noticed when it is reached, however rarely the clock was read before.
TEST(Run, EachTimeTargetIsReached) {
  auto data = std::views::iota(0, 100'000);
  const auto arbiter = std::make_shared<Scripted>();
  giro::Run run(0, data, RunTasks{{every(1), [&](int&) { arbiter->time += 0.1; }}},
                {.stop = at({.time = 3'600.0}), .arbiter = arbiter});
  EXPECT_EQ(run.advance(at(50)), StopReason::reached);
  const double aim = run.elapsed().time() + 1;
  EXPECT_EQ(run.advance(at({.time = aim})), StopReason::reached);
  EXPECT_GE(run.elapsed().time(), aim - 1e-6);
  EXPECT_LE(run.elapsed().time(), aim + 0.5);
}

// A run can continue with a given history, and to a stop of any kind.
TEST(Run, ContinuesAsConfigured) {
  auto data = std::views::iota(0, 1'000);
  const auto arbiter = std::make_shared<Scripted>();
  std::vector<double> latest;
  const RunTasks tasks{{every(1),
                        [&](LoopState<int, int>& l) {
                          arbiter->time += 1;
                          const Logs before = l.accumulated_logs();
                          latest.push_back(before.empty() ? 0 : before.entry_value("n"));
                        }},
                       {every(1), count_in_run()}};
  giro::Run first(0, data, tasks, {.stop = at(4)});
  (void)first.advance();
  giro::Run run(0, data, tasks, {.stop = at(2), .history = first.history(), .arbiter = arbiter});
  EXPECT_EQ(run.advance(), StopReason::stopped);
  EXPECT_EQ(run.history().size(), 6u);
  latest.clear();
  run.extend(at({.time = 5.5}));
  EXPECT_EQ(run.advance(), StopReason::stopped);
  EXPECT_EQ(latest, (Values{0, 3, 4, 5}));
  EXPECT_EQ(run.elapsed().steps, 6);
  run.extend(at(7), first.history());
  EXPECT_EQ(run.advance(), StopReason::stopped);
  EXPECT_EQ(run.history().collect("n")[0], (Values{1, 2, 3, 4, 7}));
}

}  // namespace
}  // namespace giro
