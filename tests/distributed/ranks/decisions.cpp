// What the ranks decide from numbers of their hosts, which differ: rank 0 decides for all.

#include <giro/giro.h>
#include <giro/jaxloop.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro::test {
namespace {

using L = LoopState<TrainState, Batch>;
using TaskOfRanks = Task<TrainState, Batch>;
using Values = std::vector<double>;

class DecisionsOfRanks : public testing::Test {
 protected:
  void SetUp() override { dir_ = partitioner_->broadcast(own_.path()); }
  void TearDown() override { meet(); }  // all have looked before rank 0's directory is removed
  void meet() const {
    double nothing = 0;
    partitioner_->all_reduce_max({&nothing, 1});
  }

  // Trains with a number "host" of this rank's, `of_first` on rank 0 and `of_others` elsewhere; the ranks then have the
  // same state and have made the same number of steps.
  LoopResult<TrainState> train(const Values& of_first, const Values& of_others, std::vector<TaskOfRanks> tasks,
                               std::int64_t steps = 12) {
    const Values& values = world().is_primary() ? of_first : of_others;
    const auto feed = [&](const Elapsed& elapsed, L&) {
      return logs().add_metric("host", values.at(static_cast<std::size_t>(elapsed.steps)));
    };
    tasks.insert(tasks.begin(), TaskOfRanks(every(1), {make_step(), Callback<TrainState, Batch>(feed)}));
    Dataset data = random_rows().shuffle(5).repeat().batch(48).partition(partitioner_);
    auto result = loop(
        TrainState::create(
            model(), optim::adamw(1e-2),
            {.inputs = {{"x", DType::f32, {1, kFeatures}}}, .context = test_device(), .partitioner = partitioner_}),
        data, tasks, {.stop = at(steps)});
    check_replicas(result.state, *partitioner_);
    expect_same(static_cast<double>(result.elapsed.steps));
    return result;
  }
  void expect_same(double value) const {
    double range[]{value, -value};
    partitioner_->all_reduce_max(range);
    EXPECT_EQ(range[0], -range[1]);
  }
  std::string dir(const std::string& name) const { return dir_ + "/" + name; }

  const std::shared_ptr<const Partitioner> partitioner_ = data_parallel(world(), test_device());
  const TemporaryDirectory own_;
  std::string dir_;
};

const Values kFirst{5, 4, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4}, kOther{5, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4};
const double kInfinite = std::numeric_limits<double>::infinity();

TEST_F(DecisionsOfRanks, EarlyStoppingKeepsTheStateThatWasBestOnRank0) {
  for (const std::int64_t patience : {4, 100}) {
    const EarlyStopping stop = early_stopping("host", {.patience = patience, .mode = "min", .restore_best = true});
    const auto result = train(kFirst, kOther, {{every(1), stop}});
    EXPECT_EQ(result.elapsed.steps, patience == 4 ? 7 : 12);
    EXPECT_EQ(stop.best(), 3);
    EXPECT_EQ(stop.best_elapsed()->steps, 2);
    EXPECT_EQ(stop.stopped(), patience == 4);
  }
}

// Only rank 0 evaluates.
struct Evaluates {
  static constexpr bool kPrimaryOnly = true;
  Logs operator()(const Elapsed& elapsed, const TrainState&) {
    return logs().add_metric("score", elapsed.steps < 3 ? elapsed.steps : 0);
  }
};

TEST_F(DecisionsOfRanks, TheOthersNeedNotLogTheEntry) {
  const EarlyStopping stop = early_stopping("score", {.patience = 2, .mode = "max"});
  EXPECT_EQ(train(kFirst, kOther, {{every(1), {Evaluates(), stop}}}).elapsed.steps, 5);
  // What is wrong on rank 0 is wrong on all.
  Monitor unknown("scor", "max");
  const Logs of_first = logs().add_metric("score", 1), of_others;
  expect_error(ErrorCode::not_found, {"did you mean 'score'"},
               [&] { (void)unknown.value(world().is_primary() ? of_first : of_others, partitioner_.get()); });
}

TEST_F(DecisionsOfRanks, PlateausAreThoseOfRank0) {
  const ReduceOnPlateau reduce = reduce_on_plateau("host", {.factor = 0.5, .patience = 3, .mode = "min"});
  const auto result = train(kFirst, kOther, {{every(1), reduce}});
  EXPECT_EQ(to_host<float>(result.state.at("learning_rate_scale"), result.state.stream()).front(), 0.125f);
  EXPECT_EQ(reduce.reductions(), 3);
}

TEST_F(DecisionsOfRanks, BestCheckpointsAreThoseOfRank0) {
  (void)train(kFirst, kOther, {{every(1), checkpoint(dir("best"), {.monitor = "host", .mode = "min"})}});
  EXPECT_EQ(CheckpointStore(dir("best")).latest()->record.steps, 3);
}

// A spike counts on rank 0 alone; what is not finite counts on each.
TEST_F(DecisionsOfRanks, AllGoBackTogether) {
  for (const bool everywhere : {false, true}) {
    Values first(12, 1), others(12, 9);
    first[4] = 9;
    if (everywhere) others[7] = kInfinite;
    const RestoreOnDivergence back =
        restore_on_divergence(dir("model"), {.monitor = "host", .spike = 3, .max_restores = 9});
    (void)train(first, others, {{every(1), back}, {every(1), checkpoint(dir("model"), {.overwrite = true})}});
    const int expected = everywhere && world().size() > 1 ? 2 : 1;
    EXPECT_EQ(back.restores(), expected);
    if (expected == 2) EXPECT_NE(back.report().find("host is not finite on rank "), std::string::npos) << back.report();
    expect_same(static_cast<double>(back.restores()));
    if (world().is_primary()) std::filesystem::remove_all(dir("model"));
  }
}

TEST_F(DecisionsOfRanks, TerminateOnNanStopsAllAndSavesNothingBad) {
  Values others(12, 1);
  others[5] = NAN;
  const TerminateOnNan stop = terminate_on_nan("host");
  const auto result = train(Values(12, 1), others, {{every(1), stop}, {every(1), checkpoint(dir("model"))}});
  const bool is_alone = world().size() == 1;
  EXPECT_EQ(result.elapsed.steps, is_alone ? 12 : 6);
  EXPECT_EQ(stop.report().empty(), is_alone);
  EXPECT_EQ(CheckpointStore(dir("model")).latest_steps(), is_alone ? 12 : 5);
}

TEST_F(DecisionsOfRanks, TerminateOnNanNeedsTheEntryOnRank0Alone) {
  const auto feed = [](const Elapsed& elapsed, L&) {
    return world().is_primary() ? logs().add_metric("own", elapsed.steps == 5 ? NAN : 1.0) : Logs();
  };
  const TaskOfRanks task(every(1), {Callback<TrainState, Batch>(feed), terminate_on_nan("own")});
  EXPECT_EQ(train(Values(12, 1), Values(12, 1), {task}).elapsed.steps, 6);
}

// A schedule of the program's own, which says something else on each rank, and changes the state where it is due.
TEST_F(DecisionsOfRanks, SchedulesOfTheProgramAreThoseOfRank0) {
  std::int64_t calls = 0;
  const Schedule schedule([&](const Elapsed& elapsed) {
    ++calls;
    return elapsed.steps % 4 == world().rank() % 4;
  });
  std::vector<std::int64_t> due;
  const auto scale = [&](TrainState& state, const Elapsed& elapsed) {
    due.push_back(elapsed.steps);
    state.set_learning_rate_scale(1.0 / static_cast<double>(elapsed.steps + 1));
  };
  (void)train(kFirst, kOther, {{schedule, scale}});
  EXPECT_EQ(due, (std::vector<std::int64_t>{0, 4, 8}));
  due.clear();
  (void)train(kFirst, kOther, {{schedule & every(8), scale}});
  EXPECT_EQ(due, (std::vector<std::int64_t>{0, 8}));
  EXPECT_GT(calls, 12);
}

TEST_F(DecisionsOfRanks, AProgramsOwnDecision) {
  const std::string mine = std::to_string(world().rank());
  EXPECT_EQ(decide_on_rank_0(partitioner_.get(), [&] { return mine; }), "0");
  EXPECT_EQ(decide_on_rank_0(nullptr, [&] { return mine; }), mine);
  EXPECT_EQ(decide_on_rank_0(partitioner_.get(), [] { return ""; }), "");
  expect_error(ErrorCode::not_found, {"no such thing"}, [&] {
    (void)decide_on_rank_0(partitioner_.get(),
                           []() -> std::string { throw Error(ErrorCode::not_found, "no such thing"); });
  });
  EXPECT_EQ(rank_with(partitioner_.get(), false), std::nullopt);
  EXPECT_EQ(rank_with(partitioner_.get(), world().rank() == 0), 0);
}

// jaxloop's early stopping, and evaluations that a function of the program chooses.
TEST_F(DecisionsOfRanks, OuterLoopStopsAndEvaluatesAsRank0Says) {
  class HostStep : public jaxloop::Step {
   public:
    HostStep(const std::shared_ptr<const Partitioner>& partitioner, bool train)
        : Step(test::model(),
               {.train = train, .optimizer = optim::sgd(0.1), .device = test_device(), .partitioner = partitioner}) {}
    Logs run(TrainState& state, const Batch& batch) override {
      const auto loss_of = [&](const nn::Params& params) {
        return mean(softmax_cross_entropy(this->model()(params, batch["x"]), batch["label"]));
      };
      const nn::Var loss = train() ? state.value_and_grad(loss_of) : loss_of(state.params());
      if (train()) state.apply_gradients();
      return logs().add_metric("loss", loss);
    }
  };
  HostStep step(partitioner_, true), eval_step(partitioner_, false);
  const auto handler = std::make_shared<jaxloop::MetricMonitoringStopHandler>(
      "host", jaxloop::MetricMonitoringStopHandlerOptions{.patience = 2, .mode = "min"});
  int round = 0, evaluations = 0;
  jaxloop::TrainLoop train_loop(
      step, {.end_actions = {jaxloop::Action([&](TrainState&, jaxloop::LoopOutputs& outputs) {
                               outputs.scalars["host"] = {
                                   (world().is_primary() ? kFirst : kOther).at(static_cast<std::size_t>(round++))};
                             }),
                             jaxloop::early_stopping_action(handler)}});
  jaxloop::EvalLoop eval_loop(
      eval_step, {.end_actions = {jaxloop::Action([&](TrainState&, jaxloop::LoopOutputs&) { ++evaluations; })}});
  const auto [state, outputs] = jaxloop::OuterLoop({.train_loop = &train_loop, .eval_loops = {&eval_loop}})(
      step.initialize_model({{"x", {1, kFeatures}}}),
      {.train_dataset = random_rows().shuffle(5).repeat().batch(48).partition(partitioner_),
       .train_total_steps = 24,
       .train_loop_steps = 2,
       .eval_specs = {{.dataset = random_rows().batch(48).partition(partitioner_),
                       .should_eval_fn = [&](std::int64_t at) { return at == 4 + 2 * world().rank(); }}}});
  EXPECT_EQ(jaxloop::step_of(state), 10);  // the best in round 3, then two rounds
  EXPECT_EQ(handler->best(), 3);
  EXPECT_EQ(evaluations, 1);
  check_replicas(state, *partitioner_);
}

}  // namespace
}  // namespace giro::test
