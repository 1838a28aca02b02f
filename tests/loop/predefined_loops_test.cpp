#include <giro/loop/predefined_loops.h>

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/dataset.h>

#include "tests/support/expect_error.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::expect_error;
using Values = std::vector<double>;
using Ints = std::vector<int>;
using Names = std::vector<std::string>;

struct Counted {
  int a = 0;
};

Logs count_up(Counted& state) { return logs().add_metric("a", ++state.a); }

// Reference test 7: one train step, four test batches that each count.
TEST(TrainLoop, OneStepAndFourTestBatches) {
  const auto run = [](const Aggregation& aggregation) {
    return train_loop(
        Counted{}, Ints(1, 0),
        {.tasks = {{"test_step", count_up}}, .test_dataset = Ints(4, 0), .test_aggregation = aggregation});
  };
  EXPECT_EQ(run("last").history.collect("a_test")[0], Values{4});
  EXPECT_EQ(run("sum").history.collect("a_test")[0], Values{10});
  EXPECT_EQ(run("mean").history.collect("a_test")[0], Values{2.5});
  EXPECT_EQ(run(TrainOptions<Counted, int>().test_aggregation).history.collect("a_test")[0], Values{2.5});
  EXPECT_EQ(run("last").state.a, 0);
}

// The completed steps at which evaluations, resets and epoch ends ran.
struct EpochEnds {
  Values test, reset, epoch;
  Values in_history;  // steps whose record has a_test
  std::int64_t steps;
};
template <class R>
EpochEnds epoch_ends(R&& dataset, TrainOptions<Counted, std::ranges::range_value_t<R>> options) {
  using B = std::ranges::range_value_t<R>;
  EpochEnds ends;
  const auto note = [](Values& values) {
    return [&values](Counted&, const Elapsed& e) { values.push_back(static_cast<double>(e.steps) + 1); };
  };
  options.tasks.emplace_back("train_step", count_up);
  options.tasks.emplace_back("test_step", count_up);
  options.tasks.emplace_back("reset_step", note(ends.reset));
  options.tasks.emplace_back("on_epoch_end", note(ends.epoch));
  options.test_dataset = [&] {
    ends.test.push_back(ends.reset.back());
    return std::vector<B>(2);
  };
  const auto result = train_loop(Counted{}, dataset, options);
  ends.in_history = result.history.collect("a_test", "steps")[1];
  ends.steps = result.elapsed.steps;
  return ends;
}

TEST(TrainLoop, TwelveStepsInEpochsOfThree) {
  const EpochEnds ends = epoch_ends(Ints(100, 0), {.epoch_duration = at(3), .stop = at(12)});
  EXPECT_EQ(ends.test, (Values{3, 6, 9, 12}));
  EXPECT_EQ(ends.reset, ends.test);
  EXPECT_EQ(ends.epoch, ends.test);
  EXPECT_EQ(ends.in_history, (Values{2, 5, 8, 11}));
  // A dataset that ends at the same step makes no difference, although the loop learns of it too late.
  EXPECT_EQ(epoch_ends(Ints(12, 0), {.epoch_duration = at(3)}).test, ends.test);
}

TEST(TrainLoop, LastEpochMayBeShorter) {
  EXPECT_EQ(epoch_ends(Ints(100, 0), {.epoch_duration = at(3), .stop = at(10)}).test, (Values{3, 6, 9, 10}));
  EXPECT_EQ(epoch_ends(Ints(10, 0), {.epoch_duration = at(3)}).test, (Values{3, 6, 9, 10}));
  EXPECT_EQ(epoch_ends(Ints(2, 0), {.epoch_duration = at(3)}).epoch, Values{2});
  // Also if a callback ends the loop, even at an epoch end that has already been evaluated.
  const auto stop_at = [](std::int64_t steps) {
    return EventTask<Counted, int>(
        "on_train_step", [steps](LoopState<Counted, int>& l) { l.stop_iteration = l.elapsed.steps + 1 == steps; });
  };
  EXPECT_EQ(epoch_ends(Ints(100, 0), {.tasks = {stop_at(7)}, .epoch_duration = at(3)}).test, (Values{3, 6, 7}));
  EXPECT_EQ(epoch_ends(Ints(100, 0), {.tasks = {stop_at(6)}, .epoch_duration = at(3)}).test, (Values{3, 6}));
}

TEST(TrainLoop, EpochsOfSamples) {
  const std::vector<Ints> batches(8, Ints(4));
  EXPECT_EQ(epoch_ends(batches, {.epoch_duration = at({.samples = 10})}).test, (Values{3, 5, 8}));
}

TEST(TrainLoop, EpochsOfOnePass) {
  const std::vector<float> rows(10);
  const Dataset dataset({{"x", Tensor(const_cast<float*>(rows.data()), DType::f32, {10}, Device::cpu())}});
  // Ten rows: the third batch of 4 reaches into the next epoch, if there is one.
  EXPECT_EQ(epoch_ends(dataset.repeat().batch(4), {.stop = at(8)}).test, (Values{3, 5, 8}));
  EXPECT_EQ(epoch_ends(dataset.batch(4), {}).test, (Values{3}));
  EXPECT_EQ(epoch_ends(Ints(5, 0), {}).test, (Values{5}));
}

TEST(TrainLoop, ContinuesWhereAnotherStopped) {
  const auto first = train_loop(Counted{}, Ints(100, 0), {.tasks = {{"train_step", count_up}}, .stop = at(5)});
  EXPECT_EQ(epoch_ends(Ints(100, 0), {.epoch_duration = at(3), .stop = at(12), .elapsed = first.elapsed}).test,
            (Values{6, 9, 12}));
}

// Every event in order, handled by the state's own members, a task and a callback object.
struct Speaker {
  std::shared_ptr<Names> said = std::make_shared<Names>();
  void train_step() { said->push_back("state's train_step"); }
  Logs test_step(const int& batch) const {
    said->push_back("state's test_step");
    return logs().add_metric("batch", batch);
  }
  int on_epoch_end = 0;  // not a function, so not a handler
};

#define GIRO_SAY(name) \
  void name(const Speaker& state) { state.said->push_back("object's " #name " " + std::to_string(++calls)); }
struct Object {
  int calls = 0;
  GIRO_SAY(on_start)
  GIRO_SAY(on_train_begin)
  GIRO_SAY(on_train_step)
  GIRO_SAY(on_test_end)
  GIRO_SAY(on_train_end)
  GIRO_SAY(on_end)
};
#undef GIRO_SAY

TEST(TrainLoop, EventsInOrder) {
  std::vector<EventTask<Speaker, int>> tasks;
  const auto say = [](std::string name) { return [name](const Speaker& state) { state.said->push_back(name); }; };
  tasks.emplace_back(every(1), say("task"));
  for (const std::string_view name : kEventNames) tasks.emplace_back(name, say(std::string(name)));
  const std::vector<EventCallback<Speaker, int>> callbacks{Object(), say("callback")};
  const Names step{"on_train_batch_begin", "state's train_step", "train_step", "on_train_step"};
  const Names epoch{"reset_step", "on_reset_step", "on_test_begin",     "on_test_batch_begin", "state's test_step",
                    "test_step",  "on_test_step",  "on_test_batch_end", "on_test_end"};

  Names expected;
  const auto add = [&](const Names& names) { expected.insert(expected.end(), names.begin(), names.end()); };
  add({"object's on_start 1", "on_train_begin", "object's on_train_begin 2"});
  add(step);
  add({"object's on_train_step 3", "on_train_batch_end", "callback", "task"});
  add(step);
  add({"object's on_train_step 4"});
  add(epoch);
  add({"object's on_test_end 5", "on_epoch_end", "on_train_batch_end", "callback", "task"});
  add({"on_train_end", "object's on_train_end 6", "object's on_end 7"});

  for (int i = 0; i < 2; ++i) {  // the second run has the same tasks and callbacks, but a new object
    const auto result = train_loop(Speaker(), Ints(2, 0),
                                   {.tasks = tasks, .callbacks = callbacks, .test_dataset = Ints(1, 7), .stop = at(2)});
    EXPECT_EQ(*result.state.said, expected);
    EXPECT_EQ(result.history.collect("batch_test")[0], Values{7});
  }
}

struct AtEpochEnd {
  static constexpr LoopEvent kEvent = LoopEvent::on_epoch_end;
  std::string* said;
  void on_start(const Counted&) { *said += "("; }
  void operator()(const Elapsed& e, const Counted&) { *said += std::to_string(e.steps); }
  void on_end(const Counted&) { *said += ")"; }
};

TEST(TrainLoop, CallbackWithItsOwnEvent) {
  std::string said;
  (void)train_loop(
      Counted{}, Ints(5, 0),
      {.tasks = {{"train_step", count_up}}, .callbacks = {AtEpochEnd{.said = &said}}, .epoch_duration = at(2)});
  EXPECT_EQ(said, "(134)");
}

TEST(TestLoop, EventsInOrder) {
  std::vector<EventTask<Counted, int>> tasks;
  Names said;
  const auto say = [&](std::string name) { return [&said, name](const Counted&) { said.push_back(name); }; };
  tasks.emplace_back(every(1), say("task"));
  for (const std::string_view name : kEventNames) tasks.emplace_back(name, say(std::string(name)));
  (void)test_loop(Counted{}, Ints(2, 0), {.tasks = tasks, .callbacks = {say("callback")}});
  const Names step{"on_test_batch_begin", "test_step", "on_test_step", "on_test_batch_end", "callback", "task"};
  Names expected{"reset_step", "on_reset_step", "on_test_begin"};
  for (int i = 0; i < 2; ++i) expected.insert(expected.end(), step.begin(), step.end());
  expected.push_back("on_test_end");
  EXPECT_EQ(said, expected);

  expected.erase(expected.begin(), expected.begin() + 2);
  for (std::string& name : expected) {
    if (const auto found = name.find("test"); found != name.npos) name.replace(found, 4, "predict");
  }
  said.clear();
  (void)predict_loop(Counted{}, Ints(2, 0), {.tasks = tasks, .callbacks = {say("callback")}});
  EXPECT_EQ(said, expected);
}

TEST(TestLoop, ReturnsStateAndHistory) {
  const auto [state, history, elapsed] =
      test_loop(Counted{5}, Ints(3, 0), {.tasks = {{"test_step", count_up}}, .stop = at(2)});
  EXPECT_EQ(state.a, 7);
  EXPECT_EQ(elapsed.steps, 2);
  EXPECT_EQ(aggregate(history, "sum").entry_value("a"), 13);
}

TEST(PredictLoop, CollectsOutputs) {
  const auto predict_step = [](const Counted& state, const int& batch) {
    return logs().add_output("y", state.a * batch);
  };
  const auto result = predict_loop(Counted{10}, Ints{1, 2, 3}, {.tasks = {{"predict_step", predict_step}}});
  const HostArray y = result.outputs.concatenate("y");
  ASSERT_EQ(y.shape(), Shape{3});
  EXPECT_EQ((std::vector<double>(y.tensor().data<double>(), y.tensor().data<double>() + 3)), (Values{10, 20, 30}));
  // A second loop adds to the same outputs.
  const auto more =
      predict_loop(Counted{1}, Ints{4}, {.tasks = {{"predict_step", predict_step}}, .outputs = result.outputs});
  EXPECT_EQ(more.outputs.collect("y").size(), 4u);
}

// Each evaluation has the test step once, and the caller's tasks stay unchanged.
TEST(TrainLoop, EvaluationMemoryDoesNotGrow) {
  int calls = 0;
  std::vector<int> per_epoch;
  const std::vector<EventTask<Counted, int>> tasks{
      {"test_step", [&](const Counted&) { ++calls; }},
      {"on_epoch_end", [&](const Counted&) { per_epoch.push_back(std::exchange(calls, 0)); }}};
  for (int i = 0; i < 2; ++i) {
    (void)train_loop(Counted{}, Ints(4, 0), {.tasks = tasks, .test_dataset = Ints(3, 0), .epoch_duration = at(1)});
  }
  EXPECT_EQ(per_epoch, (std::vector<int>{3, 3, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].callbacks.size(), 1u);
}

TEST(TrainLoop, TestDatasets) {
  const auto sum = [](AnyDataset<int> dataset, const Period& duration = {}) {
    const auto result = fit(Counted{}, Ints(2, 0),
                            {.tasks = {{"test_step", [](const int& batch) { return logs().add_metric("x", batch); }}},
                             .test_dataset = std::move(dataset),
                             .epoch_duration = at(1),
                             .test_duration = duration,
                             .test_name = "valid",
                             .test_aggregation = "sum"});
    return result.history.collect("x_valid")[0];
  };
  EXPECT_EQ(sum(Ints{1, 2, 3}), (Values{6, 6}));
  EXPECT_EQ(sum(Ints{1, 2, 3}, at(2)), (Values{3, 3}));
  EXPECT_EQ(sum(std::views::iota(1, 4) | std::views::transform([](int i) { return 2 * i; })), (Values{12, 12}));
  int next = 10;
  EXPECT_EQ(sum([&] { return Ints(2, next++); }), (Values{20, 22}));
  // An empty test dataset logs nothing.
  EXPECT_EQ(fit(Counted{}, Ints(2, 0), {.tasks = {{"test_step", count_up}}, .test_dataset = Ints{}}).history.size(),
            0u);
}

TEST(TrainLoop, SignalInTheEvaluationEndsTraining) {
  int epochs = 0;
  const auto result = train_loop(Counted{}, Ints(9, 0),
                                 {.tasks = {{"train_step", count_up},
                                            {"test_step",
                                             [](const int& batch) {
                                               if (batch == 1) std::raise(SIGTERM);
                                               return logs().add_metric("x", batch);
                                             }},
                                            {"on_epoch_end", [&](const Counted&) { ++epochs; }}},
                                  .test_dataset = Ints{0, 1, 2},
                                  .epoch_duration = 2});
  EXPECT_EQ(result.interrupted, SIGTERM);
  EXPECT_EQ(result.elapsed.steps, 2);
  EXPECT_EQ(epochs, 1);
  EXPECT_EQ(result.history.latest().values().size(), 1u);
}

TEST(TrainLoop, Errors) {
  expect_error(ErrorCode::not_found, {"no event 'on_epochs_end'", "'on_epoch_end'"}, [] {
    (void)train_loop(Counted{}, Ints(1, 0), {.tasks = {{"on_epochs_end", count_up}}});
  });
  expect_error(ErrorCode::not_found, {"no event 'trainstep'", "'train_step'"}, [] {
    (void)test_loop(Counted{}, Ints(1, 0), {.tasks = {{"trainstep", count_up}}});
  });
  expect_error(ErrorCode::invalid_argument, {"found 0"},
               [] { (void)train_loop(Counted{}, Ints(1, 0), {.epoch_duration = at(0)}); });
  expect_error(ErrorCode::invalid_argument, {"expected steps, samples or tokens", "{.time = 1}"},
               [] { (void)train_loop(Counted{}, Ints(1, 0), {.epoch_duration = at({.time = 1.0})}); });
  // Nothing would run in the steps: observers and callbacks that only manage the loop do not count.
  const auto observer = [](const Elapsed&) {};
  const auto looks_after = [](LoopState<Counted, int>&) {};
  expect_error(ErrorCode::invalid_argument, {"no train_step", "{\"train_step\", ...}"}, [&] {
    (void)fit(Counted{}, Ints(1, 0), {.tasks = {{every(2), looks_after}}, .callbacks = {observer}});
  });
  expect_error(ErrorCode::invalid_argument, {"no test_step"}, [&] {
    (void)fit(Counted{}, Ints(1, 0), {.tasks = {{"train_step", count_up}}, .test_dataset = Ints(1, 0)});
  });
  expect_error(ErrorCode::invalid_argument, {"no test_step"}, [] {
    (void)test_loop(Counted{}, Ints(1, 0), {.tasks = {{"train_step", count_up}}});
  });
  expect_error(ErrorCode::invalid_argument, {"no predict_step"}, [] { (void)predict_loop(Counted{}, Ints(1, 0)); });
  for (const std::string event : {"on_train_batch_begin", "on_train_step", "on_train_batch_end"}) {
    EXPECT_EQ(train_loop(Counted{}, Ints(2, 0), {.tasks = {{event, count_up}}}).state.a, 2) << event;
  }
  EXPECT_EQ(fit(Counted{}, Ints(2, 0), {.tasks = {{every(1), count_up}}}).state.a, 2);
  EXPECT_EQ(fit(Counted{}, Ints(2, 0), {.callbacks = {count_up}}).state.a, 2);
  // An error before the first step loses nothing.
  try {
    (void)train_loop(7, Ints(1, 0), {.epoch_duration = at(0), .metadata = 8});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_EQ(*error.state<int>(), 7);
    EXPECT_EQ(std::any_cast<int>(error.metadata()), 8);
  }
  // An error names the event and the step.
  expect_error(ErrorCode::not_found, {"on_train_step: a function, at step 1: ", "'b'"}, [] {
    (void)train_loop(Counted{}, Ints(3, 0),
                     {.tasks = {{"train_step", count_up}, {"on_train_step", [](LoopState<Counted, int>& l) {
                                                             if (l.elapsed.steps == 1) l.logs.entry_value("b");
                                                           }}}});
  });
}

// A state on a device, where many steps are launched at a time.
class TrainLoopOfStates : public ::testing::Test {
 protected:
  static State create() {
    State state(Device::cpu());
    state.add("count", {{"", DType::i64, {}}});
    return state;
  }
  static std::int64_t value(const State& state) {
    return to_host<std::int64_t>(state.at("count"), state.stream()).front();
  }
};

TEST_F(TrainLoopOfStates, OneRecordingForAllEpochs) {
  const std::vector<float> rows(32);
  const Dataset dataset = Dataset({{"x", Tensor(const_cast<float*>(rows.data()), DType::f32, {32}, Device::cpu())}})
                              .repeat()
                              .batch(4)
                              .to(Device::cpu());
  int train_recordings = 0, test_recordings = 0;
  const auto train_step = jit([&](State& state, const Batch&) {
    ++train_recordings;
    increment(state.at("count"), 1, state.stream());
    return Logs();
  });
  const auto writing = jit([&](State& state, const Batch&) {
    ++test_recordings;
    increment(state.at("count"), 1000, state.stream());
    return logs().add_metric("host", 1);
  });
  const auto reading = jit([&](const State&, const Batch&) {
    ++test_recordings;
    return logs().add_metric("host", 1);
  });
  EXPECT_TRUE(train_step.changes_state());
  EXPECT_FALSE(reading.changes_state());
  const auto expect_one_recording = [&](const auto& test_step) {
    train_recordings = test_recordings = 0;
    const auto result = train_loop(create(), dataset,
                                   {.tasks = {{"train_step", train_step}, {"test_step", test_step}},
                                    .test_dataset = dataset,
                                    .epoch_duration = at(8),
                                    .test_duration = at(3),
                                    .stop = at(40)});
    EXPECT_EQ(value(result.state), 40);
    EXPECT_EQ(result.history.collect("host_test", "steps")[1], (Values{7, 15, 23, 31, 39}));
    EXPECT_EQ(train_recordings, 1);
    EXPECT_EQ(test_recordings, 1);
  };
  expect_one_recording(writing);
  expect_one_recording(reading);
}

// Between two epoch ends the device gets as many steps at once as allowed.
TEST_F(TrainLoopOfStates, StepsRunAheadBetweenEpochEnds) {
  const std::vector<float> rows(32);
  const Dataset resident = Dataset({{"x", Tensor(const_cast<float*>(rows.data()), DType::f32, {32}, Device::cpu())}})
                               .repeat()
                               .batch(4)
                               .to(Device::cpu());
  State state = create();
  const auto* count = state.at("count").data<std::int64_t>();
  std::vector<std::int64_t> done;  // steps that had run when each batch was requested
  const auto watched = resident | std::views::transform([&](const Batch& batch) {
                         if (done.size() == static_cast<std::size_t>(batch.position() / 4)) done.push_back(*count);
                         return batch;
                       });
  const auto step = jit([](State& s, const Batch&) {
    increment(s.at("count"), 1, s.stream());
    return Logs();
  });
  int observed = 0;
  (void)train_loop(std::move(state), watched,
                   {.tasks = {{"train_step", step}, {"on_epoch_end", [](const State&) {}}},
                    .callbacks = {[&](const Elapsed&) { ++observed; }},
                    .epoch_duration = at(6),
                    .stop = at(12),
                    .steps_per_execution = 4});
  EXPECT_EQ(done, (std::vector<std::int64_t>{0, 0, 0, 0, 4, 4, 6, 6, 6, 6, 10, 10}));
  EXPECT_EQ(observed, 12);
}

}  // namespace
}  // namespace giro
