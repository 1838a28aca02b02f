#include <giro/loop/inner_loop.h>

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <ranges>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <giro/loop/loop.h>

#include "tests/support/expect_error.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::expect_error;
using Values = std::vector<double>;
using Ints = std::vector<int>;

const Ints kTen(10, 0);

Logs count(int& state) { return logs().add_metric("a", ++state); }

auto count_to(std::int64_t steps) {
  return [steps](int state) { return loop(state, kTen, {{every(1), count}}, {.stop = at(steps)}); };
}

// Reference test 4: 100 steps with an inner loop of 3 every 10.
TEST(InnerLoop, ThreeStepsEveryTen) {
  const auto [state, history, elapsed] = loop(
      0, Ints(100, 0), {{every(1), count}, {every(10), inner_loop("valid", count_to(3), {.aggregation = "last"})}});
  EXPECT_EQ(state, 100);
  EXPECT_EQ(history.size(), 100u);
  const auto [steps, a, a_valid] = history.collect("steps", "a", "a_valid");
  ASSERT_EQ(steps.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(steps[i], 10.0 * static_cast<double>(i));
    EXPECT_EQ(a[i], steps[i] + 1);
    EXPECT_EQ(a_valid[i], a[i] + 3);  // the inner loop starts from the outer state
  }
}

TEST(InnerLoop, OuterStateIsUnchangedByDefault) {
  for (const bool output_state : {false, true}) {
    const auto by_value = loop(0, Ints(5, 0), {{every(1), inner_loop(count_to(2), {.output_state = output_state})}});
    EXPECT_EQ(by_value.state, output_state ? 10 : 0);
    const auto by_reference = loop(0, Ints(5, 0),
                                   {{every(1), inner_loop(
                                                   [](int& state) {
                                                     state += 100;
                                                     return loop(state, kTen, {{every(1), count}});
                                                   },
                                                   {.output_state = output_state})}});
    EXPECT_EQ(by_reference.state, output_state ? 550 : 0);
    const auto constant = loop(0, Ints(5, 0),
                               {{every(1), inner_loop(
                                               [](const int& state) {
                                                 return loop(state, kTen, {{every(1), count}});
                                               },
                                               {.output_state = output_state})}});
    EXPECT_EQ(constant.state, output_state ? 50 : 0);
  }
}

// Only the first evaluation would see batches.
TEST(InnerLoop, RejectsARangeThatIsUsedUp) {
  std::istringstream text("1 2 3");
  auto numbers = std::views::istream<int>(text);
  int evaluations = 0;
  const auto evaluate = inner_loop("valid", [&](int state) {
    ++evaluations;
    return loop(state, numbers, {{every(1), count}});
  });
  test::expect_invalid({"every(2)", "at step 2", "inner_loop 'valid': its dataset had batches before and has none now"},
                       [&] {
                         (void)loop(0, Ints(5, 0), {{every(2), evaluate}});
                       });
  EXPECT_EQ(evaluations, 2);
  // A dataset that is always empty is left alone.
  (void)loop(0, Ints(5, 0), {{every(2), inner_loop([](int state) {
                                return loop(state, Ints(), {{every(1), count}});
                              })}});
}

TEST(InnerLoop, NamesAndAggregation) {
  const auto entries = [](auto callback) {
    std::string text;
    const auto result = loop(0, Ints(1, 0), {{every(1), callback}});
    const Logs latest = result.history.latest();
    for (const Logs::Entry& e : latest.entries()) {
      text += e.collection + "." + e.name + "=" + std::to_string(static_cast<int>(e.value.value())) + " ";
    }
    return text;
  };
  EXPECT_EQ(entries(inner_loop("valid", count_to(3))), "metrics.a_valid=2 ");
  EXPECT_EQ(entries(inner_loop(count_to(3))), "metrics.a=2 ");
  EXPECT_EQ(entries(inner_loop("valid", count_to(3), {.aggregation = "last"})), "metrics.a_valid=3 ");
  EXPECT_EQ(entries(inner_loop("valid", count_to(3), {.aggregation = "sum"})), "metrics.a_valid=6 ");
  EXPECT_EQ(entries(inner_loop("valid", count_to(3), {.aggregation = {{"metrics", "first"}}})), "metrics.a_valid=1 ");
}

TEST(InnerLoop, MeansWeightBatchesBySamples) {
  const std::vector<Ints> batches{Ints(3, 1), Ints(1, 9)};
  const auto evaluate = [&](const int& state) {
    return loop(state, batches,
                {{every(1), [](const Ints& batch) { return logs().add_metric("mean", batch.front()); }}});
  };
  const auto result = loop(0, Ints(1, 0),
                           {{every(1), inner_loop("weighted", evaluate, {.aggregation = "mean"})},
                            {every(1), inner_loop("plain", evaluate, {.aggregation = "unweighted_mean"})}});
  EXPECT_EQ(result.history.collect("mean_weighted")[0], Values{3});
  EXPECT_EQ(result.history.collect("mean_plain")[0], Values{5});
}

TEST(InnerLoop, FunctionsThatReturnATuple) {
  const auto result = loop(0, Ints(1, 0), {{every(1), inner_loop("x", [](const int& state) {
                                              History history;
                                              history.commit({}, logs().add_metric("a", state + 7));
                                              return std::tuple(state, history, Elapsed{.steps = 1});
                                            })}});
  EXPECT_EQ(result.history.collect("a_x")[0], Values{7});
}

TEST(InnerLoop, MoveOnlyStates) {
  using Pointer = std::unique_ptr<int>;
  const auto add = [](Pointer state) {
    return loop(std::move(state), kTen, {{every(1), [](Pointer& p) { return logs().add_metric("a", ++*p); }}});
  };
  const auto result = loop(std::make_unique<int>(5), Ints(2, 0),
                           {{every(1), inner_loop(add, {.output_state = true, .aggregation = "last"})}});
  EXPECT_EQ(*result.state, 25);
  EXPECT_EQ(result.history.collect("a")[0], (Values{15, 25}));

  expect_error(ErrorCode::invalid_argument, {"inner_loop", "output_state"}, [&] { inner_loop(add); });
  int seen = 0;
  const auto look = [&](const Pointer& state) {
    seen = *state;
    return std::tuple(0, History(), Elapsed());
  };
  EXPECT_EQ(*loop(std::make_unique<int>(5), Ints(2, 0), {{every(1), inner_loop(look)}}).state, 5);
  EXPECT_EQ(seen, 5);
}

class InnerLoopOfStates : public ::testing::Test {
 protected:
  static State create() {
    State state(Device::cpu());
    state.add("count", {{"", DType::i64, {}}});
    state.add("more", {{"a", DType::i64, {3}}, {"b", DType::i64, {}}});
    return state;
  }
  static auto count_on_device() {
    return eager([](State& state, const Batch&) {
      for (const Leaf& leaf : state.flatten()) {
        if (leaf.value.shape() == Shape{}) increment(leaf.value, 1, state.stream());
      }
      return Logs();
    });
  }
  static std::int64_t value(const State& state, const std::string& path) {
    return to_host<std::int64_t>(state.at(path), state.stream()).front();
  }
};

TEST_F(InnerLoopOfStates, RestoresLeavesInPlace) {
  const std::vector<Batch> batches(4);
  for (const bool output_state : {false, true}) {
    std::vector<std::int64_t> inner;
    const auto evaluate = [&](State& state) {
      auto result = loop(std::move(state), batches, {{every(1), count_on_device()}});
      inner.push_back(value(result.state, "count"));
      return result;
    };
    State state = create();
    const void* address = state.at("count").raw();
    const auto result =
        loop(std::move(state), batches,
             {{every(1), count_on_device()}, {every(2), inner_loop(evaluate, {.output_state = output_state})}});
    EXPECT_EQ(value(result.state, "count"), output_state ? 12 : 4);
    EXPECT_EQ(value(result.state, "more/b"), output_state ? 12 : 4);
    EXPECT_EQ(inner, output_state ? (std::vector<std::int64_t>{5, 11}) : (std::vector<std::int64_t>{5, 7}));
    EXPECT_EQ(result.state.at("count").raw(), address);
  }
}

// The error comes after the inner loop, while its logs are aggregated.
TEST_F(InnerLoopOfStates, AggregationErrorLosesNothing) {
  const std::vector<Batch> batches(4);
  const auto evaluate = [&](State& state) {
    return loop(std::move(state), batches,
                {{every(1), count_on_device()}, {every(1), [](const State&) { return logs().add_metric("x", 1); }}});
  };
  const auto fails = [](std::span<const double>) -> double { throw std::runtime_error("mine"); };
  try {
    (void)loop(create(), batches,
               {{every(1), count_on_device()}, {after(1), inner_loop("valid", evaluate, {.aggregation = fails})}});
    FAIL() << "nothing was thrown";
  } catch (const LoopError& error) {
    ASSERT_NE(error.state<State>(), nullptr);
    EXPECT_EQ(value(*error.state<State>(), "count"), 2);
  }
}

TEST_F(InnerLoopOfStates, FunctionThatLosesTheState) {
  const auto lose = [](State& state) -> std::tuple<int, History, Elapsed> {
    const State lost = std::move(state);
    throw std::runtime_error("mine");
  };
  const auto run = [&] { (void)loop(create(), std::vector<Batch>(1), {{every(1), inner_loop(lose)}}); };
  test::expect_error(ErrorCode::callback, {"mine"}, run);
}

TEST_F(InnerLoopOfStates, ErrorLosesNothing) {
  const std::vector<Batch> batches(4);
  const auto evaluate = [&](State& state) {
    return loop(std::move(state), batches, {{every(1), count_on_device()}, {every(1), [](const Elapsed& e, State&) {
                                                                              if (e.steps == 2)
                                                                                throw std::runtime_error("mine");
                                                                            }}});
  };
  try {
    (void)loop(create(), batches, {{every(1), count_on_device()}, {after(1), inner_loop("valid", evaluate)}});
    FAIL() << "nothing was thrown";
  } catch (const LoopError& error) {
    ASSERT_NE(error.state<State>(), nullptr);
    EXPECT_EQ(value(*error.state<State>(), "count"), 2);
    EXPECT_EQ(error.elapsed().steps, 1);
    EXPECT_NE(std::string(error.what()).find("at step 2: mine"), std::string::npos) << error.what();
  }
}

TEST(InnerLoop, SignalEndsTheOuterLoopToo) {
  int inner_steps = 0, ends = 0;
  const auto evaluate = [&](int state) {
    return loop(state, kTen,
                {{every(1),
                  [&](int&) {
                    if (++inner_steps == 4) std::raise(SIGINT);
                    return logs().add_metric("a", 1);
                  }}},
                {.on_end = {[&](int&) { ++ends; }}});
  };
  const auto result = loop(0, Ints(100, 0), {{every(1), count}, {every(1), inner_loop("valid", evaluate)}},
                           {.on_end = {[&](int&) { ++ends; }}});
  EXPECT_EQ(result.interrupted, SIGINT);
  EXPECT_EQ(inner_steps, 4);
  EXPECT_EQ(ends, 2);
  EXPECT_EQ(result.elapsed.steps, 1);
  // An interrupted evaluation logs nothing.
  const Logs latest = result.history.latest();
  EXPECT_EQ(latest.entries().size(), 1u);
  EXPECT_EQ(latest.entry_value("a"), 1);
}

}  // namespace
}  // namespace giro
