// jaxloop's early stopping: what it remembers over a restart, and which way a metric is better.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/jaxloop/actions.h>
#include <giro/callbacks/jaxloop/loops.h>
#include <giro/callbacks/jaxloop/outer_loop.h>
#include <giro/callbacks/jaxloop/step.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/metrics.h>
#include <giro/loop/data/dataset.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro::jaxloop {
namespace {

using test::expect_invalid, test::TemporaryDirectory;
using Handler = MetricMonitoringStopHandler;

class RightStep : public Step {
 public:
  explicit RightStep(bool train)
      : Step(nn::dense(3), {.train = train, .optimizer = optim::sgd(0.01), .device = Device::cpu()}) {}

  Logs run(TrainState& state, const Batch& batch) override {
    const auto loss_of = [&](const nn::Params& params) { return mean(nn::square(model()(params, batch["x"]))); };
    if (train()) {
      (void)state.value_and_grad(loss_of);
      state.apply_gradients();
    }
    const nn::Var logits = model()(state.params(), batch["x"]);
    return logs()
        .add_metric("right", accuracy(logits, batch["label"]))
        .add_metric("wrong", mean(softmax_cross_entropy(logits, batch["label"])))
        .add_metric("size", mean(nn::square(logits)));
  }
};

Dataset labelled() {
  std::vector<float> x(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5);
  return Dataset({{"x", HostArray(x, {12, 2})}, {"label", std::vector<std::int32_t>(12, 1)}}).repeat().batch(4);
}
TrainState initial(const Step& step) { return step.initialize_model({{"x", {1, 2}}}); }

// What a training did: the steps at which it evaluated, its end, and the handler's memory.
struct Told {
  std::set<std::int64_t> evaluated;
  std::int64_t end = 0;
  double best = 0;
  std::int64_t best_step = 0;
  friend bool operator==(const Told&, const Told&) = default;
};

// Chunks of 2 steps, each followed by an evaluation whose metric is `values`, by the state's step. Where it looks at
// the metric, and in which order it saves, differs by `place`.
class Training {
 public:
  explicit Training(int place) : place_(place) {}

  // Runs until it ends, or until it is killed: by an exception when `kill` is reached, before (0), between (1) or after
  // (2) the actions of a round.
  bool run(int kill_round, int kill_place) {
    const auto handler =
        std::make_shared<Handler>("score", MetricMonitoringStopHandlerOptions{.patience = 3, .mode = "max"});
    int rounds = 0;
    const auto kill = [&](int place) {
      Action action([&, place](TrainState&, LoopOutputs&) {
        if (place == kill_place && rounds == kill_round) throw std::runtime_error("killed");
      });
      return place == 2 ? action.run_last() : action;
    };
    const Action feed([&](TrainState& state, LoopOutputs& outputs) {
      outputs.scalars["score"] = {values_.at(static_cast<std::size_t>(step_of(state) / 2))};
    });
    const Action note([&](TrainState& state, LoopOutputs&) { told_.evaluated.insert(step_of(state)); });
    const Action count([&](TrainState&, LoopOutputs&) { ++rounds; });
    const Action save = checkpoint_action(dir_.path()), stop = early_stopping_action(handler, place_ == 2 ? 2 : 1);
    RightStep train_step(true), eval_step(false);
    std::vector<Action> train_ends{count, kill(0)}, eval_ends{note};
    if (place_ == 0) {
      train_ends.insert(train_ends.end(), {save, feed, stop, kill(1), kill(2)});
    } else {
      train_ends.insert(train_ends.end(), {save, kill(2)});
      eval_ends = {kill(1), feed, stop, note};
    }
    TrainLoop train_loop(train_step, {.end_actions = train_ends});
    EvalLoop eval_loop(eval_step, {.end_actions = eval_ends});
    try {
      const auto [state, outputs] = OuterLoop(
          {.train_loop = &train_loop, .eval_loops = {&eval_loop}, .checkpoint_spec = CheckpointSpec{dir_.path()}})(
          initial(train_step), {.train_dataset = labelled(),
                                .train_total_steps = 40,
                                .train_loop_steps = 2,
                                .eval_specs = {{.dataset = labelled(), .num_steps = 1}}});
      told_.end = step_of(state);
    } catch (const std::exception&) {
      return false;
    }
    told_.best = handler->best();
    told_.best_step = handler->best_step();
    return true;
  }
  const Told& told() const { return told_; }

 private:
  const std::vector<double> values_{0, 1, 3, 2, 2, 4, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  const int place_;
  const TemporaryDirectory dir_;
  Told told_;
};

// Killed at any point of any round and started again, it stops where a training that was never killed stops.
TEST(JaxloopEarlyStopping, PatienceAndBestSurviveARestart) {
  for (int place = 0; place < 3; ++place) {
    Training whole(place);
    ASSERT_TRUE(whole.run(-1, -1));
    ASSERT_EQ(whole.told().end, 16);
    ASSERT_EQ(whole.told().best, place == 2 ? 3 : 4);
    for (int kill_place = 0; kill_place < 3; ++kill_place) {
      for (int round = 1; round <= whole.told().end / 2; ++round) {
        Training killed(place);
        ASSERT_FALSE(killed.run(round, kill_place));
        ASSERT_TRUE(killed.run(-1, -1));
        Told told = killed.told();
        EXPECT_EQ(told, whole.told()) << "place " << place << ", killed in round " << round << " at " << kill_place;
        // It stays stopped.
        ASSERT_TRUE(killed.run(-1, -1));
        EXPECT_EQ(killed.told().end, whole.told().end);
      }
    }
  }
}

TEST(JaxloopEarlyStopping, TheMetricTellsWhichWayIsBetter) {
  RightStep step(false);
  TrainLoop loop(step);
  DatasetIterator data(labelled());
  const LoopResult result = loop(initial(step), data, 2);
  const auto mode_of = [&](const std::string& metric) {
    Handler handler(metric, {.min_delta = 0});
    const double value = handler.value_in(result.outputs).value();
    (void)handler.update(value, 0);
    (void)handler.update(value + 1, 1);
    return handler.best() == value ? "min" : "max";
  };
  EXPECT_STREQ(mode_of("right"), "max");
  EXPECT_STREQ(mode_of("wrong"), "min");
  expect_invalid({"monitor 'size'", "mode = \"min\" or mode = \"max\""}, [&] { (void)mode_of("size"); });
  EXPECT_FALSE(Handler("other").value_in(result.outputs));
  // By hand, as in jaxloop, the name tells.
  expect_invalid({"monitor 'bleu'", "mode = \"min\" or mode = \"max\""}, [] { (void)Handler("bleu").update(1, 0); });
}

}  // namespace
}  // namespace giro::jaxloop
