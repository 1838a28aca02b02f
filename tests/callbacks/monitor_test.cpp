// Which way a monitored entry is better: its kind says it, or the mode does.

#include <giro/callbacks/monitor.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/early_stopping.h>
#include <giro/callbacks/reduce_on_plateau.h>
#include <giro/callbacks/restore_on_divergence.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/metrics.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/inner_loop.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/checkpoint_store.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;
using Tasks = std::vector<Task<State, Batch>>;

// A state with a value that rises by 1 in each step, and a learning rate's scale.
State rising() {
  State state(Device::cpu());
  state.add("params", {{"value", DType::f32, {}}});
  *state.add("learning_rate_scale", {{"", DType::f32, {}}}).leaves().front().value.data<float>() = 1;
  return state;
}
Dataset batches(std::int64_t count) {
  return Dataset({{"x", HostArray(std::vector<float>(static_cast<std::size_t>(count)), {count})}}).batch(1);
}

// Logs the value as "score", once its direction is set, and raises it.
auto raise(nn::Direction direction) {
  return jit([direction](State& state, const Batch&) {
    const nn::Var value(state.at("params/value"), state.stream());
    const nn::Var score = value + 1;
    cast(value.value(), score.value(), state.stream());
    score.set_direction(direction);
    return logs().add_metric("score", score);
  });
}

// What the callbacks do in 6 steps of a value that only rises.
struct Found {
  std::int64_t steps;    // until early stopping, with a patience of 2
  double best;           // its best
  std::int64_t saved;    // the step of the best checkpoint
  std::int64_t reduced;  // on a plateau, with a patience of 2
  friend bool operator==(const Found&, const Found&) = default;
};
Found run_monitored(nn::Direction direction, const std::string& mode) {
  const test::TemporaryDirectory dir;
  const EarlyStopping stop = early_stopping("score", {.patience = 2, .mode = mode});
  const ReduceOnPlateau reduce = reduce_on_plateau("score", {.patience = 2, .mode = mode});
  const Tasks tasks{{every(1), raise(direction)},
                    {every(1), {checkpoint(dir.path(), {.monitor = "metrics.score", .mode = mode}), reduce, stop}}};
  const auto result = loop(rising(), batches(6), tasks);
  return {result.elapsed.steps, stop.best(), CheckpointStore(dir.path()).latest_steps(), reduce.reductions()};
}
const Found kMaximized{6, 6, 6, 0}, kMinimized{3, 1, 1, 1};

TEST(Monitor, TheEntryTellsWhichWayIsBetter) {
  EXPECT_EQ(run_monitored(nn::Direction::higher, "auto"), kMaximized);
  EXPECT_EQ(run_monitored(nn::Direction::lower, "auto"), kMinimized);
}

TEST(Monitor, AModeDecides) {
  for (const nn::Direction direction : {nn::Direction::unknown, nn::Direction::lower, nn::Direction::higher}) {
    EXPECT_EQ(run_monitored(direction, "max"), kMaximized);
    EXPECT_EQ(run_monitored(direction, "min"), kMinimized);
  }
}

// The error comes with the first logs, long before the callback is due.
TEST(Monitor, UnknownDirectionIsAnErrorAtTheStart) {
  const test::TemporaryDirectory dir;
  const std::vector<Callback<State, Batch>> monitors{early_stopping("score"), reduce_on_plateau("score"),
                                                     checkpoint(dir.path(), {.monitor = "metrics.score"})};
  for (const Callback<State, Batch>& monitor : monitors) {
    const auto on_host = [](State&) { return logs().add_metric("score", 1); };
    expect_invalid({"at step 0", "monitor '", "score'", "lower or higher", "mode = \"min\" or mode = \"max\""}, [&] {
      (void)loop(rising(), batches(6), {{every(1), on_host}, {last(), monitor}});
    });
    expect_invalid({"at step 2", monitor->name()}, [&] {
      (void)loop(rising(), batches(6), {{after(2), raise(nn::Direction::unknown)}, {last(), monitor}});
    });
  }
}

TEST(Monitor, LossesAreBetterIfTheyAreLower) {
  const EarlyStopping stop = early_stopping("kl", {.patience = 2});
  const auto log = [](const Elapsed& elapsed) { return logs().add_loss("kl", elapsed.steps); };
  EXPECT_EQ(loop(0, std::vector<int>(9), {{every(1), {log, stop}}}).elapsed.steps, 3);
  const EarlyStopping of_metric = early_stopping("metrics.kl", {.patience = 2});
  const auto both = [](const Elapsed& elapsed) { return logs().add_loss("kl", elapsed.steps, /*add_metric=*/true); };
  EXPECT_EQ(loop(0, std::vector<int>(9), {{every(1), {both, of_metric}}}).elapsed.steps, 3);
}

// An evaluation's results keep what its entries say, whichever way they are aggregated.
TEST(Monitor, ReadsTheResultsOfAnEvaluation) {
  for (const char* const aggregation : {"last", "mean", "max"}) {
    const EarlyStopping stop = early_stopping("score_valid", {.patience = 2});
    const auto evaluate =
        inner_loop("valid",
                   [](State& state) {
                     return loop(std::move(state), batches(2), {{every(1), raise(nn::Direction::higher)}});
                   },
                   {.output_state = true, .aggregation = aggregation});
    EXPECT_EQ(loop(rising(), batches(5), {{every(1), {evaluate, stop}}}).elapsed.steps, 5) << aggregation;
  }
}

TEST(Monitor, TrainStatesTellWhatIsALossAndWhatIsAccuracy) {
  std::vector<float> x(64);
  std::vector<std::int32_t> labels(16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 11);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 3);
  const Dataset data = Dataset({{"x", HostArray(x, {16, 4})}, {"label", labels}}).repeat().batch(8);
  const nn::Layer model = nn::dense(3);
  const auto step = jit([model](TrainState& state, const Batch& batch) {
    const auto [loss, logits] = state.value_and_grad([&](auto& params) {
      const nn::Var outputs = model(params, batch["x"]);
      return std::pair{mean(square(outputs)), outputs};  // whatever is differentiated is a loss
    });
    state.apply_gradients();
    return logs()
        .add_metric("loss", loss)
        .add_metric("accuracy", accuracy(logits, batch["label"]))
        .add_metrics({{"top", nn::top_k_accuracy(logits, batch["label"], 2).value}});
  });
  const std::vector<std::pair<std::string, std::string>> expected{{"loss", "min"}, {"accuracy", "max"}, {"top", "max"}};
  const auto result =
      loop(TrainState::create(model, optim::sgd(0.1), {.inputs = data.spec(), .context = Device::cpu()}), data,
           {{every(1), step}}, {.stop = at(2)});
  for (const auto& [entry, mode] : expected) {
    Monitor monitor(entry);
    EXPECT_EQ(monitor.mode(), "auto");
    EXPECT_TRUE(monitor.value(result.history.latest()));
    EXPECT_EQ(monitor.mode(), mode) << entry;
  }
}

// As after a restart: a history that was saved and read back says the same, and a monitor the same best value.
TEST(Monitor, DirectionsAreSavedWithTheHistory) {
  for (const nn::Direction direction : {nn::Direction::unknown, nn::Direction::lower, nn::Direction::higher}) {
    const auto result = loop(rising(), batches(3), {{every(1), raise(direction)}});
    History saved = result.history, read;
    Archive archive;
    saved.persist(archive);
    Archive reading = Archive::read(archive.text(), {}, nullptr, archive.lines());
    read.persist(reading);
    EXPECT_TRUE(reading.report().empty());
    EXPECT_EQ(read.latest().schema().direction(0), direction);
  }
  const std::string text = [] {
    History history = loop(rising(), batches(1), {{every(1), raise(nn::Direction::lower)}}).history;
    Archive archive;
    history.persist(archive);
    std::string written = archive.text();
    return written.replace(written.find("lower"), 5, "loser");
  }();
  expect_error(ErrorCode::corrupt_data, {"direction \"loser\"", "'lower' or 'higher'"}, [&] {
    History history;
    Archive::Lines lines{.count = 1, .text = "[0,0,1,0.0,0.0,1,1.0]\n"};
    Archive reading = Archive::read(text, {}, nullptr, {{"records", lines}});
    history.persist(reading);
  });
}

TEST(Monitor, ASpikeIsForValuesToBeMinimized) {
  const test::TemporaryDirectory dir;
  const RestoreOnDivergence back = restore_on_divergence(dir.path(), {.monitor = "score", .spike = 3});
  expect_invalid({"restore_on_divergence", "spike is 3", "higher values of 'metrics.score' are better"}, [&] {
    (void)loop(rising(), batches(3), {{every(1), raise(nn::Direction::higher)}, {last(), back}});
  });
  EXPECT_EQ(loop(rising(), batches(3), {{every(1), {raise(nn::Direction::lower), back}}}).elapsed.steps, 3);
}

TEST(Monitor, ComparesOnlyWhatItKnows) {
  Monitor monitor("score");
  EXPECT_TRUE(monitor.update(5));
  expect_invalid({"monitor 'score'", "mode = \"min\""}, [&] { (void)monitor.update(4); });
  monitor.learn_mode(nn::Direction::higher);
  EXPECT_FALSE(monitor.update(4));
  monitor.learn_mode(nn::Direction::lower);  // what was learned first stays
  EXPECT_EQ(monitor.mode(), "max");
  expect_invalid({"mode is 'maxi'", "did you mean 'max'"}, [] { Monitor("score", "maxi"); });
  expect_invalid({"checkpoint store", "mode is ''", "'min' or 'max'"},
                 [] { CheckpointStore("dir", {.monitor = "score"}); });
}

// A loop written by hand saves what its callbacks remember and goes on as one that was not interrupted.
TEST(Monitor, LoopsWrittenByHandResume) {
  const std::vector<double> losses{5, 3, 4, 4, 2, 3, 3, 3, 3};
  const auto run_by_hand = [&](const std::string& dir, std::int64_t until) {
    EarlyStopping stop = early_stopping("loss", {.patience = 3});
    Checkpoint save = checkpoint(dir);
    State state = rising();
    std::int64_t begin = 0;
    if (CheckpointStore(dir).latest_steps() >= 0) {
      begin = restore(state, dir, *posix_file_system(), [&](Archive& archive) { archive("stop", stop); }).steps;
    }
    for (std::int64_t step = begin; step < until; ++step) {
      const Elapsed elapsed{.steps = step};
      const bool stops = stop(elapsed, logs().add_loss("loss", losses.at(static_cast<std::size_t>(step))));
      save(elapsed, state, {}, [&](Archive& archive) { archive("stop", stop); });
      if (stops) return std::pair{step, stop.best_elapsed()->steps};
    }
    return std::pair{std::int64_t{-1}, std::int64_t{-1}};
  };
  const test::TemporaryDirectory whole, parts;
  const auto expected = run_by_hand(whole.path(), 9);
  EXPECT_EQ(expected, std::pair(std::int64_t{7}, std::int64_t{4}));
  for (std::int64_t until = 1; until < 7; ++until) EXPECT_EQ(run_by_hand(parts.path(), until).first, -1);
  EXPECT_EQ(run_by_hand(parts.path(), 9), expected);
}

}  // namespace
}  // namespace giro
