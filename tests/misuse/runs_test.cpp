// Runs, steps and contexts used in the wrong place, or by two threads at once.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <ranges>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/reduce.h>
#include <giro/kernels/nn/remat.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/elapse.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>

#include "tests/misuse/misuse.h"
#include "tests/support/training.h"

namespace giro {
namespace {

using test::batch;
using test::Misuse;
using test::rows;

TrainState state_in(const DeviceContext& context) { return test::state_of(nn::dense(2), context); }
TrainState new_state() { return state_in(Device::cpu()); }

using IntRun = Run<int, const std::ranges::iota_view<int, int>>;

// Calls f(run) in the second step of the run.
Misuse in_a_callback(const char* name, std::vector<std::string> words, std::function<void(IntRun&)> f) {
  return {name, std::move(words), [f = std::move(f)] {
            const std::ranges::iota_view<int, int> data(0, 4);
            IntRun* self = nullptr;
            IntRun run(0, data, {{every(1), [&](int& s, const int& i) {
                                    if (i == 1) f(*self);
                                    return logs().add_metric("n", ++s);
                                  }}});
            self = &run;
            run.advance();
          }};
}

TEST(Misuse, OfARunWithinItself) {
  test::expect_errors({
      in_a_callback("Advance", {"advance", "step 1", "callback"}, [](IntRun& run) { run.advance(at(3)); }),
      in_a_callback("Extend", {"extend", "step 1", "callback"}, [](IntRun& run) { run.extend(at(9)); }),
      in_a_callback("Finish", {"finish", "step 1", "callback"}, [](IntRun& run) { (void)run.finish(); }),
  });
}

// A callback that goes on after the error loses nothing.
TEST(Misuse, ARunThatWasAdvancedWithinItselfKeepsItsRecords) {
  const std::ranges::iota_view<int, int> data(0, 4);
  IntRun* self = nullptr;
  int errors = 0;
  IntRun run(0, data, {{every(1), [&](int& s) {
                          try {
                            self->advance(at(3));
                          } catch (const Error&) {
                            ++errors;
                          }
                          return logs().add_metric("n", ++s);
                        }}});
  self = &run;
  run.advance();
  EXPECT_EQ(errors, 4);
  EXPECT_EQ(run.finish().history.collect("n")[0], (std::vector<double>{1, 2, 3, 4}));
}

TEST(Misuse, OfARunThatIsOver) {
  const auto finished = [](auto f) {
    return [f] {
      const std::ranges::iota_view<int, int> data(0, 4);
      IntRun run(0, data, {});
      (void)run.finish();
      f(run);
    };
  };
  test::expect_errors({
      {"Advance", {"ended"}, finished([](IntRun& run) { run.advance(); })},
      {"Finish", {"finished"}, finished([](IntRun& run) { (void)run.finish(); })},
      {"Extend", {"finished"}, finished([](IntRun& run) { run.extend(at(9)); })},
      {"StateMovedAwayInTheLoop",
       {"moved from"},
       [] {
         std::optional<TrainState> thief;
         (void)loop(new_state(), rows(),
                    {{every(1), [&](TrainState& s) { thief.emplace(std::move(s)); }},
                     {every(1), jit([](TrainState&, const Batch&) { return Logs(); })}},
                    {.stop = 2});
       }},
  });
}

TEST(Misuse, OfAStepWithinItself) {
  using TheStep = decltype(jit([](TrainState&, const Batch&) { return Logs(); }));
  const auto calls_itself = [](auto make) {
    return [make] {
      std::optional<TheStep> step;
      step = make([&](TrainState& s, const Batch& b) { return (*step)(s, b); });
      TrainState state = new_state();
      (*step)(state, batch());
    };
  };
  const auto recorded = [](auto f) { return jit(std::move(f)); };
  const auto called = [](auto f) { return eager(std::move(f)); };
  test::expect_errors({
      {"Recorded", {"the step of", "calls itself"}, calls_itself(recorded)},
      {"Eager", {"the step of", "calls itself"}, calls_itself(called)},
      {"ThroughAnother",
       {"the step of", "calls itself"},
       [] {
         std::optional<TheStep> first, second;
         first = eager([&](TrainState& s, const Batch& b) { return (*second)(s, b); });
         second = eager([&](TrainState& s, const Batch& b) { return (*first)(s, b); });
         TrainState state = new_state();
         (*first)(state, batch());
       }},
      {"InALoop",
       {"the step of", "calls itself"},
       [] {
         std::optional<TheStep> step;
         step = jit([&](TrainState& s, const Batch& b) { return (*step)(s, b); });
         (void)loop(new_state(), rows(), {{every(1), *step}}, {.stop = 2});
       }},
      {"CountsItsRecordings",
       {"the step of", "calls itself"},
       [] {
         std::optional<TheStep> step;
         step = jit([&](TrainState&, const Batch&) { return logs().add_metric("n", step->num_recordings()); });
         TrainState state = new_state();
         (*step)(state, batch());
       }},
  });
}

// Two threads with a state each, in one context: each call runs alone, or is an error.
TEST(Misuse, OfAContextByTwoThreads) {
  const DeviceContext context(Device::cpu());
  TrainState first = state_in(context), second = state_in(context);
  std::atomic<int> phase = 0;
  std::string message;
  std::thread other([&] {
    while (phase < 1) std::this_thread::yield();
    try {
      (void)loop(std::move(second), rows(), {{every(1), [](TrainState&) {}}}, {.stop = 2});
    } catch (const Error& error) {
      message = error.what();
    }
    phase = 2;
  });
  (void)loop(std::move(first), rows(),
             {{every(1),
               [&](TrainState&) {
                 phase = 1;
                 while (phase < 2) std::this_thread::yield();
               }}},
             {.stop = 1});
  other.join();
  EXPECT_NE(message.find("a context of cpu is used by two threads at once"), std::string::npos) << message;
}

TEST(Misuse, OfAStepByTwoThreadsGivesTheRightNumbersOrAnError) {
  const DeviceContext context(Device::cpu());
  const nn::Layer model = nn::dense(2);
  const auto step = jit(test::training(
      [model](const nn::Params& params, const Batch& b) { return mean(nn::square(model(params, b["x"]))); }));
  const auto expected = [&] {
    TrainState state = new_state();
    std::vector<double> losses;
    for (int i = 0; i < 50; ++i) losses.push_back(step(state, batch()).entry_value("loss"));
    return losses;
  }();
  std::atomic<int> errors = 0, wrong = 0;
  const auto train = [&](TrainState& state) {
    const Batch one = batch();
    for (std::size_t done = 0; done < expected.size();) {
      try {
        if (step(state, one).entry_value("loss") != expected[done]) ++wrong;
        ++done;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("two threads at once"), std::string::npos) << error.what();
        ++errors;
      }
    }
  };
  TrainState first = state_in(context), second = state_in(context);
  std::thread other([&] { train(second); });
  train(first);
  other.join();
  EXPECT_EQ(wrong, 0) << errors << " errors";
}

// Still converted to std::int64_t.
enum { kFive = 5 };
static_assert(std::same_as<decltype(at(kFive)), Period> && std::constructible_from<PeriodOrSteps, decltype(kFive)>);

TEST(Misuse, OfCounts) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto data = std::views::iota(0, 4);
  const auto elapsed_from = [data](const Elapsed& initial) {
    return [data, initial] {
      for (auto item : elapse(data, {.initial = initial})) (void)item;
    };
  };
  test::expect_errors({
      {"StopBeyondTheLargest",
       {"18446744073709551615", "2^63"},
       [data] {
         for (auto item : elapse(data, {.stop = std::numeric_limits<std::uint64_t>::max()})) (void)item;
       }},
      {"StopOfADouble", {"1e+19", "2^63"}, [] { (void)at(1e19); }},
      {"StopOfAFraction", {"0.5", "whole"}, [] { (void)at(0.5); }},
      {"StopOfNaN", {"nan", "whole"}, [] { (void)at(std::numeric_limits<double>::quiet_NaN()); }},
      {"StopAtTheLargest",
       {},
       [data] {
         for (auto item : elapse(data, {.stop = kMost})) (void)item;
       }},
      {"StepsBeyondTheLargest", {"9223372036854775806 steps", "2^53"}, elapsed_from({.steps = kMost - 1})},
      {"SamplesBeyondTheLargest", {"samples", "2^53"}, elapsed_from({.samples = kMost - 1})},
      {"BatchesBeyondTheLargest",
       {"count of samples", "9223372036854775807"},
       [data] {
         for (auto item : elapse(data, {.batch_size_fn = [](const int&) { return kMost / 2 + 1; }})) (void)item;
       }},
      {"ScheduleOfAFraction", {"2.5", "whole"}, [] { (void)every(2.5); }},
      {"ScheduleBeyondTheLargest",
       {"18446744073709551615", "2^63"},
       [] { (void)after(std::numeric_limits<std::uint64_t>::max()); }},
      {"ScheduleAtTheLargest",
       {},
       [data] {
         (void)loop(0, data, {{every(kMost), [](int&) {}}});
       }},
      {"NegativeSteps", {"-1 steps", "2^53"}, elapsed_from({.steps = -1})},
      {"TokensBeyondTheLargest",
       {"tokens", "9223372036854775807"},
       [] { (void)Elapsed{.samples = kMost / 2, .tokens_per_sample = 3}.tokens(); }},
  });
}

TEST(Misuse, OfEmptyFunctions) {
  test::expect_errors({
      {"Callback",
       {"task 1", "bad_function_call"},
       [] {
         (void)loop(0, std::views::iota(0, 2), {{every(1), std::function<void(int&)>()}});
       }},
      {"Map", {"map"}, [] { (void)rows().map({}).spec(); }},
      {"Remat", {"remat"}, [] { (void)nn::remat({}, nn::constant(HostArray::scalar(1), Stream(Device::cpu()))); }},
  });
}

}  // namespace
}  // namespace giro
