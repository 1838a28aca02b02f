// The loop of one of several ranks; a partitioner that always agrees stands in for the others.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <giro/loop/data/batch.h>
#include <giro/loop/loop.h>
#include <giro/loop/predefined_loops.h>

#include "tests/support/expect_error.h"
#include "tests/support/fake_partitioner.h"

namespace giro {
namespace {

using test::FakePartitioner;

struct Shared {
  std::shared_ptr<const FakePartitioner> fake;
  int count = 0;
  std::shared_ptr<const Partitioner> partitioner() const { return fake; }
};

Shared on_rank(int rank, int ranks = 2) { return {std::make_shared<FakePartitioner>(rank, ranks)}; }

struct Printer {
  static constexpr bool kPrimaryOnly = true;
  std::shared_ptr<std::string> out;
  void on_start(const Elapsed&) { *out += "start "; }
  void operator()(const Elapsed& elapsed, const Logs&) { *out += std::to_string(elapsed.steps) + " "; }
  void on_end(const Elapsed&) { *out += "end"; }
};
struct EpochPrinter {
  static constexpr bool kPrimaryOnly = true;
  std::shared_ptr<std::string> out;
  void on_epoch_end(const Elapsed&) { *out += "epoch "; }
};

std::string printed(int rank) {
  const auto out = std::make_shared<std::string>();
  const std::vector<int> data(3);
  const auto result = loop(on_rank(rank), data, {{every(1), [](Shared& s) { ++s.count; }}, {every(1), Printer{out}}});
  EXPECT_EQ(result.state.count, 3);
  EXPECT_EQ(result.elapsed.steps, 3);
  return *out;
}

TEST(LoopOfRanks, PrimaryOnlyCallbacksRunOnRank0) {
  EXPECT_EQ(printed(0), "start 0 1 2 end");
  EXPECT_EQ(printed(1), "");
}

TEST(LoopOfRanks, PrimaryOnlyAppliesToEventsAndHooks) {
  for (const int rank : {0, 1}) {
    const auto out = std::make_shared<std::string>();
    const std::vector<int> data(2);
    (void)train_loop(on_rank(rank), data,
                     {.tasks = {{"train_step", [](Shared& s) { ++s.count; }}},
                      .callbacks = {EpochPrinter{out}},
                      .epoch_duration = at(1)});
    EXPECT_EQ(*out, rank == 0 ? "epoch epoch " : "") << "rank " << rank;
    out->clear();
    (void)loop(on_rank(rank), data, {{every(1), [](Shared& s) { ++s.count; }}},
               {.on_start = {Printer{out}}, .on_end = {Printer{out}}});
    EXPECT_EQ(*out, rank == 0 ? "0 2 " : "") << "rank " << rank;
  }
}

// However many ranks share the batches, the same steps are due and the same one is the last.
TEST(LoopOfRanks, SamplesAndTokensCountAllRanks) {
  const auto due = [](int ranks) {
    std::vector<float> rows(12);
    Batch part(Batch::Features{{"x", Tensor(rows.data(), DType::f32, {12 / ranks}, Device::cpu())}});
    part.set_part(BatchPart{.ranks = ranks, .samples = 12, .rows = 12 / ranks});
    std::vector<std::int64_t> steps;
    const auto note = [&](Shared&, const Elapsed& elapsed) { steps.push_back(elapsed.steps); };
    const auto result =
        loop(on_rank(0, ranks), std::vector(30, part), {{every({.tokens = 100}), note}, {every({.samples = 50}), note}},
             {.stop = at({.tokens = 1'000}), .tokens_per_sample = 5, .catch_signals = false});
    steps.push_back(result.elapsed.steps);
    return steps;
  };
  // 60 tokens a step: 100, 200, ... are first passed at 120, 240, 300, 420, ...
  const std::vector<std::int64_t> expected = due(1);
  EXPECT_EQ((std::vector<std::int64_t>(expected.begin(), expected.begin() + 6)),
            (std::vector<std::int64_t>{2, 4, 5, 5, 7, 9}));
  EXPECT_EQ(expected.back(), 17);
  EXPECT_EQ(due(2), expected);
  EXPECT_EQ(due(4), expected);
}

// All ranks alike ask whether to stop after each callback that may have requested it.
TEST(LoopOfRanks, AgreeOnStopping) {
  const auto stops_asked = [](int rank) {
    const auto out = std::make_shared<std::string>();
    const std::vector<int> data(100);
    auto result =
        loop(on_rank(rank), data,
             {{every(10), [](LoopState<Shared, int>& loop) { loop.stop_iteration = loop.elapsed.steps > 45; }},
              {every(1), [](const Shared&, const Elapsed&) {}},
              {every(1), Printer{out}}},
             {.catch_signals = false});
    EXPECT_EQ(result.elapsed.steps, 51);
    // A question's number modulo 4 is its kind; kind 2 asks whether to stop.
    return std::ranges::count_if(result.state.fake->questions,
                                 [](const auto& asked) { return static_cast<int>(asked[0]) % 4 == 2; });
  };
  EXPECT_EQ(stops_asked(0), 7);  // after on_start, and in 6 steps
  EXPECT_EQ(stops_asked(1), 7);
}

// A stop that one rank requests where the others do not ask reaches them with the next question about signals.
TEST(LoopOfRanks, StopAfterAStepIsExchangedLater) {
  const std::vector<int> data(1'000'000);
  auto result =
      loop(on_rank(0), data,
           {{every(7), [](LoopState<Shared, int>& loop) { loop.after_step([&loop] { loop.stop_iteration = true; }); }}},
           {.catch_signals = false});
  EXPECT_GT(result.elapsed.steps, 1);
  EXPECT_LT(result.elapsed.steps, 1'000'000);
}

TEST(LoopOfRanks, ErrorNamesTheRank) {
  const std::vector<int> data(3);
  test::expect_error(ErrorCode::callback, {"rank 1 of 2, task 1, every(1)", "at step 0: no more"}, [&] {
    (void)loop(on_rank(1), data, {{every(1), [](Shared&) { throw std::runtime_error("no more"); }}});
  });
}

}  // namespace
}  // namespace giro
