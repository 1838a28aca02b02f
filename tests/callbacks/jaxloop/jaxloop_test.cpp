// jaxloop's own numbers, and giro's additional guarantees.

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/jaxloop/actions.h>
#include <giro/callbacks/jaxloop/loops.h>
#include <giro/callbacks/jaxloop/outer_loop.h>
#include <giro/callbacks/jaxloop/step.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/transformer.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>

#include "tests/callbacks/recording_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensor_ops.h"

namespace giro::jaxloop {
namespace {

using test::expect_error, test::expect_invalid, test::TemporaryDirectory;
using Values = std::vector<double>;
using Counts = std::vector<int>;

// Fits w x to 2 x, and logs x.
class LineStep : public Step {
 public:
  explicit LineStep(StepOptions options) : Step(nn::dense(1), with_cpu(std::move(options))) {}

  Logs run(TrainState& state, const Batch& batch) override {
    const auto loss_of = [&](const nn::Params& params) {
      return nn::mean(nn::square(nn::subtract(model()(params, batch["x"]), nn::scale(batch["x"], 2))));
    };
    const nn::Var x = nn::mean(batch["x"]);
    if (!train()) return logs().add_metric("x", x).add_metric("loss", loss_of(state.params()));
    const nn::Var loss = state.value_and_grad(loss_of);
    state.apply_gradients();
    return logs().add_metric("x", x).add_metric("loss", loss);
  }

 private:
  static StepOptions with_cpu(StepOptions options) {
    options.device = Device::cpu();
    return options;
  }
};

Dataset numbers(std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i);
  return Dataset({{"x", HostArray(x, {count, 1})}}).batch(1);
}
// Endless, with values small enough to train with.
Dataset training_data() {
  std::vector<float> x(64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  return Dataset({{"x", HostArray(x, {64, 1})}}).shuffle(1).repeat().batch(8);
}
Values range(int begin, int end) {
  Values values;
  for (; begin < end; ++begin) values.push_back(begin);
  return values;
}
StepOptions trains() { return {.train = true, .optimizer = optim::adam(0.01)}; }
TrainState initialized(const Step& step) { return step.initialize_model({{"x", {1, 1}}}); }
std::vector<float> params_of(const TrainState& state) {
  return to_host<float>(state.collection("params").flat(), state.stream());
}

// "10 batches -> outputs 0-9, 10 pulls; num_steps 5 -> 0-4, 5 pulls; then 5-9."
TEST(Jaxloop, OutputsListEachStep) {
  LineStep step({});
  TrainLoop loop(step);
  DatasetIterator all(numbers(10)), some(numbers(10));
  LoopResult result = loop(initialized(step), all);
  EXPECT_EQ(result.outputs["x"], range(0, 10));
  EXPECT_EQ(all.position(), 10);
  result = loop(std::move(result.state), some, 5);
  EXPECT_EQ(result.outputs["x"], range(0, 5));
  EXPECT_EQ(some.position(), 5);
  result = loop(std::move(result.state), some, 5);
  EXPECT_EQ(result.outputs["x"], range(5, 10));
  result = loop(std::move(result.state), some, 5);  // the data have ended already
  EXPECT_FALSE(result.outputs.scalars.contains("x"));
  // giro: 0 means no steps.
  DatasetIterator none(numbers(10));
  EXPECT_EQ(loop(std::move(result.state), none, 0).outputs.scalars.count("x"), 0u);
  EXPECT_EQ(none.position(), 0);
}

TEST(Jaxloop, ModelsOfIntegersAreInitialized) {
  struct TokenStep : Step {
    using Step::Step;
    Logs run(TrainState& state, const Batch& batch) override {
      return logs().add_metric("mean", mean(model()(state.params(), batch["tokens"])));
    }
  } step(nn::embedding(5, 2), {.device = Device::cpu()});
  const Dataset tokens = Dataset({{"tokens", std::vector<std::int32_t>{0, 4, 2}}}).batch(1);
  for (const bool by_hand : {false, true}) {
    TrainState state =
        by_hand ? step.initialize_model({{"tokens", DType::i32, {1}}}) : step.initialize_model(tokens.spec());
    EXPECT_EQ(EvalLoop(step)(std::move(state), tokens).outputs["mean"].size(), 3u);
  }
}

// The loop passes over a range without num_batches(), and once more to look for its end, however many chunks there are.
TEST(Jaxloop, IsAtEndVisitsEachBatchOnce) {
  const std::vector<Batch> batches(60);
  std::int64_t passed = 0;
  struct Counting {
    std::vector<Batch>::const_iterator at;
    std::int64_t* passed;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    const Batch& operator*() const { return *at; }
    Counting& operator++() {
      ++*passed;
      ++at;
      return *this;
    }
    Counting operator++(int) {
      Counting old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Counting& other) const { return at == other.at; }
  };
  DatasetIterator data(
      AnyDataset<Batch>(std::ranges::subrange(Counting{batches.begin(), &passed}, Counting{batches.end(), &passed})));
  std::int64_t steps = 0;
  for (; !data.is_at_end(); data.advance(2)) steps += 2;
  EXPECT_EQ(steps, 60);
  EXPECT_EQ(passed, 60);
}

// "Loop intervals 1/2/3 and step intervals 1/2/15: after 10 batches the loop actions ran 1/0/0 and the step actions
// 10/5/0; after 15 more 2/1/0 and 25/12/1; loop_count reset to 1, 10 more -> 3/2/0 and 35/17/1."
TEST(Jaxloop, ActionIntervalsCountLoopsOrSteps) {
  Counts loops(3), steps(3), begins(3), step_begins(3);
  const auto counting = [](Counts& counts, const std::vector<std::int64_t>& intervals) {
    std::vector<Action> actions;
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      actions.emplace_back([&counts, i](TrainState&, LoopOutputs&) { ++counts[i]; }, intervals[i]);
    }
    return actions;
  };
  LineStep step({.begin_actions = counting(step_begins, {1, 2, 15}), .end_actions = counting(steps, {1, 2, 15})});
  TrainLoop loop(step, {.begin_actions = counting(begins, {1, 2, 3}), .end_actions = counting(loops, {1, 2, 3})});
  DatasetIterator data(numbers(100));
  TrainState state = initialized(step);
  const auto run = [&](std::int64_t batches, const Counts& of_loops, const Counts& of_steps) {
    LoopResult result = loop(std::move(state), data, batches);
    state = std::move(result.state);
    EXPECT_EQ(loops, of_loops);
    EXPECT_EQ(begins, of_loops);
    EXPECT_EQ(steps, of_steps);
    EXPECT_EQ(step_begins, of_steps);
  };
  run(10, {1, 0, 0}, {10, 5, 0});
  run(15, {2, 1, 0}, {25, 12, 1});
  loop.set_loop_count(1);
  run(10, {3, 2, 0}, {35, 17, 1});
  EXPECT_EQ(data.position(), 35);
}

// A begin action comes before its step, and only if there is a step; an end action sees its step's outputs.
TEST(Jaxloop, ActionsOfStepsSeeTheOutputsSoFar) {
  std::vector<std::string> seen;
  const auto note = [&](const std::string& name) {
    return [&seen, name](TrainState&, LoopOutputs& outputs) {
      const auto x = outputs.scalars.find("x");
      seen.push_back(name + std::to_string(x == outputs.scalars.end() ? 0 : x->second.size()));
    };
  };
  LineStep step({.begin_actions = {Action(note("begin"), 2)}, .end_actions = {Action(note("end"), 3)}});
  TrainLoop loop(step);
  DatasetIterator data(numbers(5));
  (void)loop(initialized(step), data);
  EXPECT_EQ(seen, (std::vector<std::string>{"begin1", "end3", "begin3"}));
}

// "min 10, 9, 9.5 -> best 9; max .8, .9, .85 -> .9; patience 2 stops on the second failure; min_delta .1 rejects 9.95;
// losses 1, .5, .6, .7 (patience 2) stop at the 4th evaluation, best .5 @ 1."
TEST(Jaxloop, StopHandler) {
  using Handler = MetricMonitoringStopHandler;
  Handler loss("loss"), accuracy("eval_accuracy");
  for (const double value : {10.0, 9.0, 9.5}) EXPECT_FALSE(loss.update(value, 0));
  EXPECT_EQ(loss.best(), 9);
  for (const double value : {0.8, 0.9, 0.85}) EXPECT_FALSE(accuracy.update(value, 0));
  EXPECT_EQ(accuracy.best(), 0.9);
  Handler patient("loss", {.patience = 2});
  EXPECT_FALSE(patient.update(1, 0));
  EXPECT_FALSE(patient.update(2, 1));
  EXPECT_TRUE(patient.update(2, 2));
  Handler coarse("loss", {.min_delta = 0.1});
  EXPECT_FALSE(coarse.update(10, 0));
  EXPECT_FALSE(coarse.update(9.95, 1));
  EXPECT_EQ(coarse.best(), 10);
  Handler losses("loss", {.patience = 2});
  std::vector<bool> stops;
  for (const double value : {1.0, 0.5, 0.6, 0.7}) stops.push_back(losses.update(value, static_cast<int>(stops.size())));
  EXPECT_EQ(stops, (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(losses.best(), 0.5);
  EXPECT_EQ(losses.best_step(), 1);
  expect_invalid({"'loss' is NaN at step 7"}, [&] { (void)loss.update(std::numeric_limits<double>::quiet_NaN(), 7); });
}

// As in stop_handler.py: the baseline is the best from the start, and a patience of 0 stops at once.
TEST(Jaxloop, StopHandlerWithABaselineOrWithoutPatience) {
  using Handler = MetricMonitoringStopHandler;
  Handler never("loss", {.patience = 2, .baseline = 5});
  EXPECT_FALSE(never.update(10, 0));
  EXPECT_TRUE(never.update(9, 1));
  EXPECT_EQ(never.best(), 5);
  EXPECT_EQ(never.best_step(), -1);
  Handler later("loss", {.patience = 2, .baseline = 5});
  std::vector<bool> stops;
  for (const double value : {10.0, 4.0, 4.5, 3.0, 3.5, 3.0}) {
    stops.push_back(later.update(value, static_cast<int>(stops.size())));
  }
  EXPECT_EQ(stops, (std::vector<bool>{false, false, false, false, false, true}));
  EXPECT_EQ(later.best(), 3);
  EXPECT_EQ(later.best_step(), 3);
  EXPECT_TRUE(Handler("loss", {.patience = 0}).update(1, 0));
  Handler signless("loss", {.min_delta = -0.1});
  EXPECT_FALSE(signless.update(10, 0));
  EXPECT_FALSE(signless.update(9.95, 1));
  EXPECT_EQ(signless.best(), 10);
}

TEST(Jaxloop, SummariesOfArraysAreHistogramsOrImages) {
  test::RecordingWriter writer;
  LineStep step({});
  TrainState state = initialized(step);
  LoopOutputs outputs;
  const HostArray array(std::vector<float>(12), {2, 2, 3});
  outputs.arrays = {{"hidden", {array}}, {"sample", {array, array}}, {"none", {}}};
  summary_action(writer, {.images = {"sample", "none"}})(state, outputs);
  summary_action(writer)(state, outputs);
  EXPECT_EQ(writer.calls, (std::vector<std::string>{"histograms 0", "images 0", "flush", "histograms 0", "flush"}));
}

class OuterLoopTest : public testing::Test {
 protected:
  LoopResult run(OuterLoopOptions options, OuterLoopArguments arguments = {}) {
    if (options.train_loop == nullptr) options.train_loop = &train_loop_;
    if (!arguments.train_dataset) arguments.train_dataset = training_data();
    arguments.train_total_steps = 100;
    arguments.train_loop_steps = 10;
    return OuterLoop(std::move(options))(initialized(step_), arguments);
  }
  Action count(int& counter) {
    return Action([&counter](TrainState&, LoopOutputs&) { ++counter; });
  }
  Action stop() {
    return Action([](TrainState&, LoopOutputs& outputs) { outputs.stop_loop = true; });
  }

  LineStep step_{trains()}, eval_step_{{}};
  TrainLoop train_loop_{step_};
  TemporaryDirectory dir_;
};

// "L=10, total 100: step 100, last outputs length 10."
TEST_F(OuterLoopTest, TrainsInChunks) {
  std::vector<std::string> lines;
  TrainLoop loop(step_, {.stats = {"num_params", "num_flops", "steps_per_sec"},
                         .log = [&](const std::string& line) { lines.push_back(line); }});
  const LoopResult result = run({.train_loop = &loop});
  EXPECT_EQ(step_of(result.state), 100);
  EXPECT_EQ(result.outputs["loss"].size(), 10u);
  EXPECT_EQ(result.outputs["jaxloop/num_params"], Values{2});
  EXPECT_GT(result.outputs["jaxloop/num_flops"].front(), 0);
  EXPECT_GT(result.outputs["jaxloop/steps_per_sec"].at(0), 0);
  EXPECT_EQ(loop.loop_count(), 10);
  ASSERT_EQ(lines.size(), 10u);
  EXPECT_EQ(lines[1].substr(0, 40), "train    | step:     20 | steps_per_sec:");
}

// The same bits as one loop of as many steps, even if the outer loop is killed after every chunk.
TEST_F(OuterLoopTest, ResultDoesNotDependOnChunkSize) {
  const auto plain = loop(initialized(step_), training_data(), {{every(1), step_.recorded()}}, {.stop = at(100)});
  EXPECT_EQ(params_of(run({}).state), params_of(plain.state));
  for (int chunk = 1; chunk <= 10; ++chunk) {
    TrainLoop killed(step_, {.end_actions = {checkpoint_action(dir_.path()), Action(stop(), chunk)}});
    int rounds = 0;
    OuterLoopOptions options{.train_loop = &killed, .checkpoint_spec = CheckpointSpec{dir_.path()}};
    Action kill([&](TrainState&, LoopOutputs&) {
      if (++rounds == 1) throw std::runtime_error("killed");
    });
    TrainLoop dies(step_, {.end_actions = {checkpoint_action(dir_.path()), kill.run_last()}});
    options.train_loop = &dies;
    EXPECT_ANY_THROW((void)run(options));
    EXPECT_EQ(CheckpointStore(dir_.path()).latest_steps(), 10 * chunk);
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "STOPPED"));
  const LoopResult last = run({.checkpoint_spec = CheckpointSpec{dir_.path()}});
  EXPECT_EQ(params_of(last.state), params_of(plain.state));
  EXPECT_TRUE(last.outputs.empty());  // "checkpoint at 100 -> nothing to do, outputs empty"
  EXPECT_TRUE(std::filesystem::exists(dir_ / "STOPPED"));
}

// The next chunk trains the state that an end action modified or replaced.
TEST_F(OuterLoopTest, ContinuesWithTheStateActionsReturn) {
  const auto reset = [](TrainState& state) {
    const Tensor params = state.collection("params").flat();
    from_host<float>(params, std::vector<float>(static_cast<std::size_t>(params.count()), 0.5f), state.stream());
  };
  DatasetIterator data(training_data());
  LoopResult by_hand = train_loop_(initialized(step_), data, 50);
  reset(by_hand.state);
  by_hand = train_loop_(std::move(by_hand.state), data, 50);
  for (const bool replaces : {false, true}) {
    TrainLoop loop(step_, {.end_actions = {Action(
                               [&](TrainState& state, LoopOutputs&) {
                                 if (replaces) state = state.clone();
                                 if (step_of(state) == 50) reset(state);
                               },
                               5)}});
    EXPECT_EQ(params_of(run({.train_loop = &loop}).state), params_of(by_hand.state)) << replaces;
  }
}

// Each batch is made once, and a chunk's end actions run before the first batch after the chunk is made.
TEST_F(OuterLoopTest, FailingDatasetKeepsEarlierChunks) {
  for (const std::int64_t bad : {20, 25}) {
    std::int64_t made = 0;
    const Dataset data = training_data().map([&](const Batch& batch) {
      if (made++ == bad) throw std::runtime_error("a bad batch");
      return batch;
    });
    const std::string dir = dir_ / std::to_string(bad);
    std::vector<std::int64_t> made_by;
    TrainLoop saving(step_, {.end_actions = {checkpoint_action(dir),
                                             Action([&](TrainState&, LoopOutputs&) { made_by.push_back(made); })}});
    try {
      (void)run({.train_loop = &saving}, {.train_dataset = data});
      FAIL() << "no error";
    } catch (const LoopError& error) {
      EXPECT_EQ(error.what(), "the dataset, at step " + std::to_string(bad) + ": a bad batch");
      EXPECT_EQ(step_of(*error.state<TrainState>()), bad);
      EXPECT_EQ(error.history().size(), static_cast<std::size_t>(bad - 20));
    }
    EXPECT_EQ(made_by, (std::vector<std::int64_t>{10, 20}));
    EXPECT_EQ(CheckpointStore(dir).latest_steps(), 20);
  }
}

// Counts, schedules and the program's tasks start anew in each chunk.
TEST_F(OuterLoopTest, ChunksCountSeparately) {
  struct Counting {
    void operator()(TrainState&) { ++counts->at(1); }
    void on_start(TrainState&) { ++counts->at(0); }
    void on_end(TrainState&) { ++counts->at(2); }
    Counts* counts;
  };
  Counts of_task(3);
  int begins = 0, ends = 0;
  LineStep step({.train = true,
                 .optimizer = optim::adam(0.01),
                 .begin_actions = {Action([&](TrainState&, LoopOutputs&) { ++begins; }, 4)},
                 .end_actions = {Action([&](TrainState&, LoopOutputs&) { ++ends; }, 3)}});
  TrainLoop plain(step, {.stats = {"examples_per_sec", "loop_time_secs"}}),
      with_tasks(step, {.tasks = {{every(1) | last(), Counting{&of_task}}}});
  const LoopResult result = run({.train_loop = &plain});
  EXPECT_EQ((Counts{begins, ends}), (Counts{20, 30}));
  EXPECT_EQ(result.outputs["x"].size(), 10u);
  EXPECT_NEAR(result.outputs.mean("jaxloop/examples_per_sec") * result.outputs.mean("jaxloop/loop_time_secs"), 80,
              1e-9);
  EXPECT_EQ(params_of(run({.train_loop = &with_tasks}).state), params_of(result.state));
  EXPECT_EQ((Counts{begins, ends}), (Counts{40, 60}));
  EXPECT_EQ(of_task, (Counts{10, 100, 10}));
}

// "stop from train or eval -> 10"; "train + eval -> 10 evals; intervals 1/2 -> 10/5".
TEST_F(OuterLoopTest, EvaluatesAndStops) {
  const Dataset data = numbers(3);
  TrainLoop stops(step_, {.end_actions = {stop()}});
  EXPECT_EQ(step_of(run({.train_loop = &stops}).state), 10);
  int first = 0, second = 0, third = 0;
  EvalLoop one(eval_step_, {.end_actions = {count(first)}}), two(eval_step_, {.end_actions = {count(second)}}),
      three(eval_step_, {.end_actions = {count(third)}});
  EXPECT_EQ(
      step_of(run({.eval_loops = {&one, &two, &three}},
                  {.eval_specs = {{data}, {data, 2, 2}, {data, 1, 1, [](std::int64_t step) { return step == 30; }}}})
                  .state),
      100);
  EXPECT_EQ((Counts{first, second, third}), (Counts{10, 5, 1}));
  EvalLoop eval_stops(eval_step_, {.end_actions = {stop()}});
  // The rest of the round still runs.
  const LoopResult stopped = run({.eval_loops = {&eval_stops, &one}}, {.eval_specs = {{data}, {data}}});
  EXPECT_EQ(step_of(stopped.state), 10);
  EXPECT_TRUE(stopped.outputs.stop_loop);
  EXPECT_EQ(first, 11);
  // Two evaluations in a row see the same data.
  EXPECT_EQ(two(initialized(eval_step_), data, 2).outputs["x"], range(0, 2));
  EXPECT_EQ(two(initialized(eval_step_), data, 2).outputs["x"], range(0, 2));
}

// A signal between two loops ends the run after the next step; one after the last step is reported.
TEST_F(OuterLoopTest, SignalBetweenLoopsEndsItAfterTheNextStep) {
  for (const std::int64_t loop : {2, 10}) {
    TrainLoop train_loop(step_,
                         {.end_actions = {Action([](TrainState&, LoopOutputs&) { std::raise(SIGTERM); }, loop)}});
    const LoopResult result = run({.train_loop = &train_loop});
    EXPECT_EQ(result.outputs.interrupted, SIGTERM);
    EXPECT_EQ(step_of(result.state), loop == 2 ? 21 : 100);
  }
}

// A signal in the last step of a chunk ends the run with that chunk.
TEST_F(OuterLoopTest, SignalInTheLastStepOfAChunk) {
  std::int64_t made = 0;
  const Dataset data = training_data().map([&](const Batch& batch) {
    if (++made == 20) std::raise(SIGTERM);
    return batch;
  });
  const LoopResult result = run({}, {.train_dataset = data});
  EXPECT_EQ(result.outputs.interrupted, SIGTERM);
  EXPECT_EQ(step_of(result.state), 20);
}

// "resume at 55 -> loop_count 10 at the end"; "50 batches only -> step 50"; "save every 2 to 10, restore 10".
TEST_F(OuterLoopTest, ResumesInTheMiddleOfAChunk) {
  DatasetIterator data(training_data());
  LoopResult before = train_loop_(initialized(step_), data, 55);
  checkpoint_action(dir_.path())(before.state, before.outputs);
  const LoopResult resumed = run({.checkpoint_spec = CheckpointSpec{dir_.path()}});
  EXPECT_EQ(train_loop_.loop_count(), 10);
  EXPECT_EQ(params_of(resumed.state), params_of(run({}).state));

  std::vector<std::string> lines;
  const LoopResult ended =
      run({.checkpoint_spec = CheckpointSpec{dir_ / "ended"},
           .log = [&](const std::string& line) { lines.push_back(line); }},
          {.train_dataset = Dataset({{"x", HostArray(std::vector<float>(50), {50, 1})}}).batch(1)});
  EXPECT_EQ(step_of(ended.state), 50);
  EXPECT_EQ(ended.outputs["loss"].size(), 10u);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "ended/STOPPED"));  // no evaluation waits for more checkpoints
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("no step at step 50 of 100"), std::string::npos);

  const std::string every_second = dir_ / "second";
  LineStep saves({.train = true,
                  .optimizer = optim::adam(0.01),
                  .end_actions = {checkpoint_action(every_second, 2, {.keep = 9})}});
  TrainLoop loop(saves);
  DatasetIterator again(training_data());
  const LoopResult saved = loop(initialized(saves), again, 10);
  TrainState restored = initialized(saves);
  EXPECT_EQ(saves.restore_model(restored, every_second).steps, 10);
  EXPECT_EQ(params_of(restored), params_of(saved.state));
  EXPECT_EQ(saves.restore_model(restored, every_second, 4).steps, 4);
  // giro: step 0 means step 0.
  expect_error(ErrorCode::not_found, {"checkpoint_0000000000"},
               [&] { (void)saves.restore_model(restored, every_second, 0); });
}

// During or after a training, evaluates the newest checkpoint each time it looks.
TEST_F(OuterLoopTest, EvaluatesCheckpointsOfAnotherProcess) {
  std::vector<std::int64_t> steps;
  EvalLoop evaluates(
      eval_step_, {.end_actions = {Action([&](TrainState& state, LoopOutputs&) { steps.push_back(step_of(state)); })}});
  const CheckpointSpec spec{dir_.path(), 0.01};
  int asked = 0;
  TrainLoop saving(step_, {.end_actions = {checkpoint_action(dir_.path())}});
  CheckpointSpec polled = spec;
  // The training continues while the evaluation waits.
  polled.iterate_stop_fn = [&] {
    TrainLoop* const loop = ++asked <= 3 ? &saving : nullptr;
    if (loop != nullptr) {
      OuterLoop({.train_loop = loop, .checkpoint_spec = spec})(
          initialized(step_),
          {.train_dataset = training_data(), .train_total_steps = 10 * asked, .train_loop_steps = 10});
    }
    return asked > 4;
  };
  (void)OuterLoop({.eval_loops = {&evaluates}, .checkpoint_spec = polled})(initialized(step_),
                                                                           {.eval_specs = {{numbers(3)}}});
  EXPECT_EQ(steps, (std::vector<std::int64_t>{10, 20, 30}));
  // It ends because of the file that the training leaves.
  steps.clear();
  (void)OuterLoop({.eval_loops = {&evaluates}, .checkpoint_spec = spec})(initialized(step_),
                                                                         {.eval_specs = {{numbers(3)}}});
  EXPECT_EQ(steps, (std::vector<std::int64_t>{30}));
}

TEST_F(OuterLoopTest, ResumesOnlyOnTheSameData) {
  const CheckpointSpec spec{dir_.path()};
  const auto train = [&](const Dataset& data, int total) {
    TrainLoop saving(step_, {.end_actions = {checkpoint_action(dir_.path())}});
    return OuterLoop({.train_loop = &saving, .checkpoint_spec = spec})(
        initialized(step_), {.train_dataset = data, .train_total_steps = total, .train_loop_steps = 10});
  };
  const auto rows = [](float first) {
    std::vector<float> x(60);
    x[0] = first;
    return Dataset({{"x", HostArray(std::move(x), {60, 1})}}).repeat();
  };
  (void)train(rows(1).batch(2), 10);
  expect_invalid({dir_.path(), "dataset/batch_size: found 3, expected 2"}, [&] { (void)train(rows(1).batch(3), 20); });
  expect_invalid({"dataset/checksums: found x: "}, [&] { (void)train(rows(2).batch(2), 20); });
  EXPECT_EQ(step_of(train(rows(1).batch(2), 20).state), 20);
}

// The file that marks the end of a training is absent while another one trains.
TEST_F(OuterLoopTest, StoppedFileIsAbsentWhileTraining) {
  const auto is_stopped = [&] { return std::filesystem::exists(dir_ / "STOPPED"); };
  std::vector<bool> seen;
  TrainLoop saving(step_, {.end_actions = {checkpoint_action(dir_.path()),
                                           Action([&](TrainState&, LoopOutputs&) { seen.push_back(is_stopped()); })}});
  for (const std::int64_t total : {10, 30}) {
    OuterLoop({.train_loop = &saving, .checkpoint_spec = CheckpointSpec{dir_.path()}})(
        initialized(step_), {.train_dataset = training_data(), .train_total_steps = total, .train_loop_steps = 10});
    EXPECT_TRUE(is_stopped());
  }
  EXPECT_EQ(seen, (std::vector<bool>{false, false, false}));
}

// A step calls begin and end if its class has them.
TEST(Jaxloop, HooksOfAStep) {
  struct Hooked : LineStep {
    using LineStep::LineStep;
    Batch begin(TrainState&, const Batch& batch) override {
      ++begins;
      return batch;
    }
    Logs end(TrainState&, Logs outputs) override { return outputs.add_metric("twice", 2 * outputs.entry_value("x")); }
    int begins = 0;
  };
  Hooked step{StepOptions{}};
  TrainLoop loop(step);
  DatasetIterator data(numbers(4));
  const LoopResult result = loop(initialized(step), data);
  EXPECT_EQ(step.begins, 4);
  EXPECT_EQ(result.outputs["twice"], (Values{0, 2, 4, 6}));
}

TEST_F(OuterLoopTest, RejectsInvalidArguments) {
  const auto expect = [&](std::initializer_list<std::string> words, OuterLoopOptions options,
                          OuterLoopArguments arguments) {
    expect_error(ErrorCode::invalid_argument, words,
                 [&] { (void)OuterLoop(std::move(options))(initialized(step_), arguments); });
  };
  EvalLoop eval(eval_step_);
  const Dataset data = training_data();
  expect({"no train_dataset"}, {.train_loop = &train_loop_}, {.train_loop_steps = 1});
  expect({"train_loop_steps is 0"}, {.train_loop = &train_loop_}, {.train_dataset = data});
  expect({"1 eval loops and 0 eval_specs"}, {.train_loop = &train_loop_, .eval_loops = {&eval}},
         {.train_dataset = data, .train_loop_steps = 1});
  expect({"eval_loop_interval is 0"}, {.eval_loops = {&eval}}, {.eval_specs = {{data, 1, 0}}});
  expect({"an eval_spec has no dataset"}, {.eval_loops = {&eval}}, {.eval_specs = {{}}});
  expect_invalid({"DatasetIterator: the dataset is empty"}, [] { (void)DatasetIterator(AnyDataset<Batch>()); });
  expect_invalid({"DatasetIterator: the dataset is empty"},
                 [&] { (void)eval(initialized(eval_step_), AnyDataset<Batch>()); });
  expect({"neither"}, {}, {});
  expect({"no checkpoint_spec"}, {.eval_loops = {&eval}}, {.eval_specs = {{data, 1}}});
  expect_invalid({"interval is 0"}, [&] { (void)Action([](TrainState&, LoopOutputs&) {}, 0); });
  expect_invalid({"no statistic 'step_per_sec'", "steps_per_sec"},
                 [&] { TrainLoop(step_, {.stats = {"step_per_sec"}}); });
  // An evaluation that changes the parameters.
  EvalLoop wrong(step_);
  expect_invalid({"the evaluation changed the state's params"}, [&] { (void)wrong(initialized(step_), numbers(3)); });
  expect_error(ErrorCode::not_found, {"'los'", "did you mean 'loss'?"},
               [&] { (void)eval(initialized(eval_step_), numbers(3)).outputs["los"]; });
}

}  // namespace
}  // namespace giro::jaxloop
