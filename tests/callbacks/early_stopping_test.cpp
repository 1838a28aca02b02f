#include <giro/callbacks/early_stopping.h>

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <initializer_list>
#include <limits>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/loop/loop.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

const double kNan = std::numeric_limits<double>::quiet_NaN();

// A state that is not a tree of tensors.
struct Model {
  int updates = 0;
};

// Logs the next of the values as "loss", and counts an update.
auto train_on(std::vector<double> losses) {
  return
      [losses](Model& model) { return logs().add_loss("loss", losses.at(static_cast<std::size_t>(model.updates++))); };
}

// The steps of a loop over these losses, and the number of updates in its final state.
struct Outcome {
  std::int64_t steps;
  int updates;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << outcome.steps << " steps, " << outcome.updates << " updates";
}

Outcome run(const std::vector<double>& losses, const EarlyStoppingOptions& options) {
  const auto [state, history, elapsed] =
      loop(Model(), std::vector<int>(losses.size()), {{every(1), {train_on(losses), early_stopping("loss", options)}}});
  return {elapsed.steps, state.updates};
}
std::int64_t steps(const std::vector<double>& losses, const EarlyStoppingOptions& options) {
  return run(losses, options).steps;
}

TEST(EarlyStopping, WaitsForPatienceEvaluations) {
  const std::vector<double> losses{5, 4, 4, 5, 3, 3, 3, 3, 3, 3};
  EXPECT_EQ(steps(losses, {.patience = 0}), 3);
  EXPECT_EQ(steps(losses, {.patience = 1}), 3);
  EXPECT_EQ(steps(losses, {.patience = 2}), 4);
  EXPECT_EQ(steps(losses, {.patience = 3}), 8);
  EXPECT_EQ(steps(losses, {.patience = 5}), 10);
  EXPECT_EQ(steps(losses, {.patience = 100}), 10);
}

TEST(EarlyStopping, MaximizesOnRequest) {
  EXPECT_EQ(steps({1, 2, 3, 2, 4, 4}, {.patience = 2, .mode = "max"}), 6);
  EXPECT_EQ(steps({1, 2, 3, 2, 2, 4}, {.patience = 2, .mode = "max"}), 5);
  EXPECT_EQ(steps({1, 2, 3, 2, 2, 4}, {.patience = 2, .mode = "min"}), 3);
}

TEST(EarlyStopping, MinDeltaCounts) {
  const std::vector<double> losses{10, 9.5, 9, 8.5, 8, 7.5, 7};
  EXPECT_EQ(steps(losses, {.patience = 1, .min_delta = 0.25}), 7);
  EXPECT_EQ(steps(losses, {.patience = 1, .min_delta = 0.5}), 2);  // must be better by more than that
  EXPECT_EQ(steps(losses, {.patience = 2, .min_delta = 0.75}), 7);
  EXPECT_EQ(steps(losses, {.patience = 2, .min_delta = 1}), 3);
  EXPECT_EQ(steps({1, 1.5, 2.5, 3}, {.patience = 1, .min_delta = 0.75, .mode = "max"}), 2);
}

TEST(EarlyStopping, NanIsNeverTheBest) {
  // A NaN at first counts as a value that is not better, and the next number beats it.
  EXPECT_EQ(steps({kNan, 5, 4, 4}, {.patience = 1}), 4);
  EXPECT_EQ(steps({kNan, kNan, 5, 4}, {.patience = 1}), 2);
  EXPECT_EQ(steps({5, kNan, 4, kNan, kNan, 3}, {.patience = 2}), 5);
  EXPECT_EQ(steps({kNan, kNan, kNan, 1, 1}, {.patience = 4, .mode = "max"}), 5);
  EXPECT_EQ(steps({std::numeric_limits<double>::infinity(), 5, 4, 4}, {.patience = 1}), 4);
}

TEST(EarlyStopping, PatienceAsAPeriodSinceTheBest) {
  const std::vector<double> losses{5, 4, 4, 4, 4, 4, 4, 4};
  EXPECT_EQ(steps(losses, {.patience = at(3)}), 5);
  EXPECT_EQ(steps(losses, {.patience = at({.samples = 4})}), 6);
  EXPECT_EQ(steps(losses, {.patience = at({.samples = 100})}), 8);

  // Seconds, in a hand-written loop.
  EarlyStopping stop = early_stopping("loss", {.patience = at({.time = 10.0})});
  const auto is_over = [&](double date, double loss) {
    return stop(Elapsed{.date = date, .date_start = 0}, logs().add_loss("loss", loss));
  };
  EXPECT_FALSE(is_over(100, 1));
  EXPECT_FALSE(is_over(109, 1));
  EXPECT_FALSE(is_over(112, 0.5));
  EXPECT_FALSE(is_over(121.9, 0.5));
  EXPECT_TRUE(is_over(122, 0.5));
}

TEST(EarlyStopping, BaselineMustBeBeaten) {
  EXPECT_EQ(steps({9, 9, 9, 9}, {.patience = 2, .baseline = 5}), 2);
  EXPECT_EQ(steps({9, 8, 8, 8}, {.patience = 2, .baseline = 5}), 3);
  EXPECT_EQ(steps({9, 4, 4, 4, 4}, {.patience = 2, .baseline = 5}), 4);
  EXPECT_EQ(steps({9, 5, 5}, {.patience = 2, .baseline = 5}), 3);  // equal to the baseline is not better
}

// Two loops end like one loop over all steps, whether the second continues the count or starts from 0.
TEST(EarlyStopping, ContinuesInTheNextLoop) {
  const std::vector<double> losses{5, 4, 6, 6, 6, 6, 6, 6, 6, 6};
  for (const std::variant<std::int64_t, Period>& patience :
       {std::variant<std::int64_t, Period>(std::int64_t{5}), std::variant<std::int64_t, Period>(at(5)),
        std::variant<std::int64_t, Period>(at({.samples = 5}))}) {
    for (const bool counts_on : {true, false}) {
      const EarlyStopping stop = early_stopping("loss", {.patience = patience});
      EXPECT_TRUE(std::isnan(stop.best()));
      EXPECT_FALSE(stop.best_elapsed());
      const std::vector<Task<Model, int>> tasks{{every(1), {train_on(losses), stop}}};
      const auto first = loop(Model(), std::vector<int>(4), tasks);
      EXPECT_EQ(stop.best(), 4);
      EXPECT_EQ(stop.best_elapsed()->steps, 1);
      EXPECT_FALSE(stop.stopped());
      EXPECT_EQ(first.elapsed.steps, 4);
      const auto second =
          loop(first.state, std::vector<int>(6), tasks, {.elapsed = counts_on ? first.elapsed : Elapsed()});
      EXPECT_EQ(second.state.updates, 7);  // 1 + 5 + 1
      EXPECT_TRUE(stop.stopped());
      EXPECT_EQ(stop.best(), 4);
    }
  }
}

TEST(EarlyStopping, NextLoopAfterAStopStartsNewWaitForTheBest) {
  const EarlyStopping stop = early_stopping("loss", {.patience = 2});
  const auto steps = [&](const std::vector<double>& losses) {
    return loop(Model(), std::vector<int>(losses.size()), {{every(1), {train_on(losses), stop}}}).elapsed.steps;
  };
  EXPECT_EQ(steps({2, 3, 3, 3}), 3);
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(steps({4, 3, 3, 3}), 2);
  EXPECT_EQ(steps({4, 1}), 2);
  EXPECT_FALSE(stop.stopped());
  EXPECT_EQ(stop.best(), 1);
}

TEST(EarlyStopping, BestStateIsKeptAcrossLoops) {
  const std::vector<double> losses{5, 3, 4, 4, 4, 4, 2, 4};
  const EarlyStopping stop = early_stopping("loss", {.patience = 100, .restore_best = true});
  const auto log = [&](const Elapsed& e) {
    return logs().add_loss("loss", losses.at(static_cast<std::size_t>(e.steps)));
  };
  const auto count = [](Model& model) { ++model.updates; };
  const std::vector<Task<Model, int>> tasks{{every(1), {count, log, stop}}};
  auto run = loop(Model(), std::vector<int>(4), tasks);
  EXPECT_EQ(run.state.updates, 2);
  run = loop(run.state, std::vector<int>(2), tasks, {.elapsed = run.elapsed});
  EXPECT_EQ(run.state.updates, 2);  // not better than in the first loop
  run = loop(run.state, std::vector<int>(2), tasks, {.elapsed = run.elapsed});
  EXPECT_EQ(run.state.updates, 3);
  expect_invalid({"giro::EarlyStopping", "another type"}, [&] {
    (void)loop(7, std::vector<int>(2), {{every(1), {log, stop}}});
  });
}

TEST(EarlyStopping, RejectsRestoringIntoAnotherStructure) {
  const EarlyStopping stop = early_stopping("loss", {.patience = 100, .restore_best = true});
  const auto run = [&](const char* name, std::int64_t size, double loss) {
    State state(Device::cpu());
    state.add(name, {{"w", DType::f32, {size}}});
    const auto log = [loss] { return logs().add_loss("loss", loss); };
    (void)loop(std::move(state), std::vector<int>(1), {{every(1), {log, stop}}});
  };
  run("a", 3, 1);
  expect_invalid({"giro::EarlyStopping", "structure"}, [&] { run("b", 3, 2); });
  expect_invalid({"giro::EarlyStopping", "structure"}, [&] { run("a", 1000, 3); });
  run("a", 1000, 0.5);
  run("a", 1000, 3);
}

TEST(EarlyStopping, ErrorLeavesTheStateUnchanged) {
  const std::vector<double> losses{1, 2, 3, 4, 5};
  try {
    (void)loop(Model(), std::vector<int>(5),
               {{every(1), {train_on(losses), early_stopping("loss", {.patience = 9, .restore_best = true})}},
                {every(1), [](const Elapsed& e, const Model&) {
                   if (e.steps == 3) throw std::runtime_error("mine");
                 }}});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(error.state<Model>()->updates, 4);
  }
}

TEST(EarlyStopping, ContinuedLoopWaitsForTheEntry) {
  const auto run = [](const Elapsed& elapsed) {
    return loop(Model(), std::vector<int>(9),
                {{every(4), [](const Model&) { return logs().add_loss("loss", 1); }},
                 {every(1), early_stopping("loss", {.patience = 3})}},
                {.elapsed = elapsed});
  };
  EXPECT_EQ(run({.steps = 6}).elapsed.steps, 12);  // the first value comes at step 8, then three that are not better
  EXPECT_EQ(run({}).elapsed.steps, 4);
}

TEST(EarlyStopping, IgnoresEvaluationsInterruptedByASignal) {
  const auto result = loop(Model(), std::vector<int>(9),
                           {{every(1),
                             [](Model& model) {
                               if (++model.updates == 3) std::raise(SIGINT);
                             }},
                            {last(), early_stopping("loss_test")}});
  EXPECT_EQ(result.interrupted, SIGINT);
  EXPECT_EQ(result.state.updates, 3);
}

TEST(EarlyStopping, SkipsLaterCallbacks) {
  int calls = 0;
  const std::vector<double> losses{1, 2, 3};
  (void)loop(Model(), std::vector<int>(3),
             {{every(1), {train_on(losses), early_stopping("loss"), [&](const Model&) { ++calls; }}}});
  EXPECT_EQ(calls, 1);
}

TEST(EarlyStopping, RestoresBestOfACopyableState) {
  const std::vector<double> losses{5, 3, 4, 4, 4};
  EXPECT_EQ(run(losses, {.patience = 2, .restore_best = true}), (Outcome{4, 2}));
  EXPECT_EQ(run(losses, {.patience = 2, .restore_best = false}), (Outcome{4, 4}));
  // Also if the loop ends for another reason.
  EXPECT_EQ(run(losses, {.patience = 100, .restore_best = true}), (Outcome{5, 2}));
  EXPECT_EQ(run({kNan, kNan}, {.patience = 5, .restore_best = true}), (Outcome{2, 2}));
}

// No later evaluation follows the best one.
TEST(EarlyStopping, RestoresBestFromTheLastEvaluation) {
  const std::vector<double> losses{5, 4, 4, 3, 2};
  const EarlyStopping stop = early_stopping("loss", {.patience = 9, .restore_best = true});
  const std::vector<Task<Model, int>> tasks{{every(1), train_on(losses)}, {every(3), stop}};
  EXPECT_EQ(loop(Model(), std::vector<int>(5), tasks).state.updates, 4);
  const auto train = [](Model& model) { ++model.updates; };
  EXPECT_EQ(loop(Model(), std::vector<int>(5), {{every(1), train}, {after(9), stop}}).state.updates, 4);
}

TEST(EarlyStopping, OnEndSeesTheBestState) {
  std::vector<int> seen;
  const std::vector<double> losses{5, 3, 4, 4, 4};
  const auto note = [&](const Model& model) { seen.push_back(model.updates); };
  (void)loop(
      Model(), std::vector<int>(5),
      {{every(1), {train_on(losses), early_stopping("loss", {.patience = 2, .restore_best = true})}}, {last(), note}},
      {.on_end = {note}});
  EXPECT_EQ(seen, (std::vector<int>{2, 2}));
}

State make_weights(Device device = Device::cpu()) {
  State state(device);
  state.add("params", {{"w", DType::f32, {3}}, {"b", DType::f32, {1}}});
  state.add("grads", {{"w", DType::f32, {3}}}, {.saved = false});
  state.add("step", {{"", DType::i64, {}}});
  return state;
}

// Fills params with the number of the step, from 1, and grads with its negative; logs the next of the losses.
auto fill_with_step(std::vector<double> losses) {
  return [losses](State& state) {
    const auto step = to_host<std::int64_t>(state.at("step"), state.stream())[0] + 1;
    from_host(state.at("step"), std::vector<std::int64_t>{step}, state.stream());
    from_host(state.at("params/w"), std::vector<float>(3, static_cast<float>(step)), state.stream());
    from_host(state.at("params/b"), std::vector<float>(1, static_cast<float>(-step)), state.stream());
    from_host(state.at("grads/w"), std::vector<float>(3, static_cast<float>(-step)), state.stream());
    return logs().add_loss("loss", losses.at(static_cast<std::size_t>(step - 1)));
  };
}

void check_restores_saved_collections(Device device) {
  const std::vector<double> losses{5, 4, 3, 6, 6, 6};
  State initial = make_weights(device);
  const void* address = initial.at("params/w").raw();
  const auto [state, history, elapsed] =
      loop(std::move(initial), std::vector<int>(6),
           {{every(1), {fill_with_step(losses), early_stopping("loss", {.patience = 2, .restore_best = true})}}});
  EXPECT_EQ(elapsed.steps, 5);
  EXPECT_EQ(state.at("params/w").raw(), address);
  EXPECT_EQ(to_host<float>(state.at("params/w"), state.stream()), std::vector<float>(3, 3));
  EXPECT_EQ(to_host<float>(state.at("params/b"), state.stream()), std::vector<float>(1, -3));
  EXPECT_EQ(to_host<std::int64_t>(state.at("step"), state.stream()), std::vector<std::int64_t>{3});
  // Collections that are not saved stay as the last step left them.
  EXPECT_EQ(to_host<float>(state.at("grads/w"), state.stream()), std::vector<float>(3, -5));
}

TEST(EarlyStopping, RestoresTheSavedCollectionsOfAState) { check_restores_saved_collections(Device::cpu()); }

TEST(EarlyStopping, RestoresTheSavedCollectionsOfACudaState) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  check_restores_saved_collections(discovery.best());
}

TEST(EarlyStopping, RejectsNonCopyableState) {
  struct MoveOnly {
    std::unique_ptr<int> value;
  };
  const auto log = [] { return logs().add_loss("loss", 1); };
  const auto run = [&](bool restore_best) {
    const EarlyStopping stop = early_stopping("loss", {.restore_best = restore_best});
    (void)loop(MoveOnly(), std::vector<int>(1), {{every(1), {log, stop}}});
  };
  run(false);
  expect_error(ErrorCode::unsupported, {"giro::EarlyStopping", "restore_best", "copied"}, [&] { run(true); });
}

TEST(EarlyStopping, ReadsEarlierLogs) {
  const auto log_once = [](const Elapsed&) { return logs().add_loss("kl", 1); };
  const auto result = loop(Model(), std::vector<int>(9),
                           {{every(4), log_once}, {every(1), early_stopping("losses.kl", {.patience = 3})}});
  EXPECT_EQ(result.elapsed.steps, 4);
}

TEST(EarlyStopping, SuggestsNearestEntryForUnknownMonitor) {
  const std::vector<double> losses{1, 2};
  expect_error(ErrorCode::not_found, {"giro::EarlyStopping", "at step 0", "'los'", "did you mean 'loss'"}, [&] {
    (void)loop(Model(), std::vector<int>(2), {{every(1), {train_on(losses), early_stopping("los")}}});
  });
  expect_error(ErrorCode::not_found, {"'loss'"}, [&] {
    (void)loop(Model(), std::vector<int>(2), {{every(1), early_stopping("loss")}});
  });
}

TEST(EarlyStopping, RejectsBadOptions) {
  const auto refused = [](std::initializer_list<std::string> words, const EarlyStoppingOptions& options) {
    expect_error(ErrorCode::invalid_argument, words, [&] { early_stopping("loss", options); });
  };
  refused({"'loss'", "mode is 'maximum'", "did you mean 'max'"}, {.mode = "maximum"});
  refused({"'loss'", "patience is -1"}, {.patience = -1});
  refused({"'loss'", "empty period"}, {.patience = Period()});
  refused({"'loss'", "min_delta is -0.5"}, {.min_delta = -0.5});
  refused({"'loss'", "min_delta is nan"}, {.min_delta = kNan});
  expect_invalid({"name is empty"}, [] { early_stopping(""); });
}

TEST(EarlyStopping, IsABarrier) {
  EXPECT_EQ((Callback<Model, int>(early_stopping("loss")).kind()), CallbackKind::barrier);
  EXPECT_EQ((Callback<State, int>(early_stopping("loss"))->name()), "giro::EarlyStopping");
}

// Reference test 10: 12 steps, validation every 2, a monitored max checkpoint, patience 100.
TEST(EarlyStopping, Reference10TwelveStepsWithAMonitoredCheckpoint) {
  const test::TemporaryDirectory dir;
  const std::vector<double> losses(12, 1);
  const auto validate = [](const Elapsed& elapsed) {
    return logs().add_metric("accuracy_valid", elapsed.steps == 6 ? 0.9 : 0.5);
  };
  const auto [state, history, elapsed] =
      loop(make_weights(), std::vector<int>(12),
           {{every(1), fill_with_step(losses)},
            {every(2),
             {validate, checkpoint(dir / "model", {.monitor = "accuracy_valid", .mode = "max"}),
              early_stopping("accuracy_valid", {.patience = 100, .mode = "max"})}}});
  EXPECT_EQ(history.size(), 12u);
  EXPECT_EQ(history.collect("steps")[0], (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  const auto stored = CheckpointStore(dir / "model").all();
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].record.steps, 7);
}

}  // namespace
}  // namespace giro
