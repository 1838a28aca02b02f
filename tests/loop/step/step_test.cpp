#include <giro/loop/step/step.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/log/aggregation.h>
#include <giro/loop/loop.h>
#include <giro/runtime/program/native_stream.h>

#include "runtime/arena.h"
#include "runtime/backend.h"
#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/tensor_ops.h"
#include "tests/support/training.h"

namespace giro {
namespace {

using Values = std::vector<double>;

// The results of a run, to compare bit by bit.
struct Outcome {
  std::map<std::string, std::vector<std::uint8_t>> leaves;
  std::vector<std::vector<double>> history;  // steps, loss, accuracy

  explicit Outcome(const State& state) : leaves(test::leaf_bytes(state)) {}
  Outcome(const State& state, const History& h) : Outcome(state) {
    const auto columns = h.collect("steps", "loss", "accuracy");
    history.assign(columns.begin(), columns.end());
  }
};

// Names the differences; a comparison of whole outcomes would print them.
void expect_equal(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.leaves.size(), b.leaves.size());
  for (const auto& [path, bytes] : a.leaves) EXPECT_TRUE(bytes == b.leaves.at(path)) << path << " differs";
  EXPECT_EQ(a.history, b.history);
}

class StepTest : public test::OpTest {
 protected:
  static constexpr std::int64_t kRows = 70, kSize = 8;

  enum class Kind { recorded, eager };
  static auto make_step(const nn::Layer& model, Kind kind) {
    const auto body = test::classifying(model);
    return kind == Kind::recorded ? jit(body) : eager(body);
  }
  TrainState create(const nn::Layer& model, std::uint64_t seed = 0) const {
    return TrainState::create(
        model, optim::adamw(1e-3),
        {.inputs = {{"image", DType::u8, {5, kSize, kSize, 1}}}, .seed = seed, .context = device()});
  }

  Outcome train(const nn::Layer& model, const Dataset& dataset, Kind kind, std::uint64_t seed = 0) const {
    const auto result = loop(create(model, seed), dataset, {{every(1), make_step(model, kind)}}, {.stop = at(20)});
    EXPECT_EQ(result.elapsed.steps, 20);
    EXPECT_EQ(result.history.size(), 20u);
    return Outcome(result.state, result.history);
  }

  // A batch of rows in host memory.
  static Batch first_batch(std::int64_t rows) { return *test::image_dataset(kRows, kSize).batch(rows).begin(); }
};

TEST_P(StepTest, RecordedAndEagerGiveTheSameBits) {
  const Dataset rows = test::image_dataset(kRows, kSize).shuffle(3).repeat();
  const std::map<std::string, Dataset> datasets{
      {"host", rows.batch(5)}, {"prefetched", rows.batch(5).prefetch(3)}, {"resident", rows.batch(5).to(device())}};
  const std::map<std::string, nn::Layer> models{{"linear", test::linear_model()}, {"cnn", test::cnn_model()}};
  for (const auto& [model_name, model] : models) {
    SCOPED_TRACE(model_name);
    std::optional<Outcome> first;
    for (const auto& [dataset_name, dataset] : datasets) {
      for (const Kind kind : {Kind::recorded, Kind::eager}) {
        SCOPED_TRACE(dataset_name + (kind == Kind::recorded ? ", recorded" : ", eager"));
        const Outcome outcome = train(model, dataset, kind);
        if (!first) first = outcome;
        expect_equal(outcome, *first);
      }
    }
    EXPECT_NE(first->leaves, Outcome(create(model)).leaves);
    if (device().is_cuda() && model_name == "cnn") continue;  // it takes the emulated GPU long
    // The model learns: the mean loss of the fourth epoch of 14 batches is below the first epoch's.
    const auto longer = loop(create(model), datasets.at("host"), {{every(1), make_step(model, Kind::recorded)}},
                             {.stop = at(4 * kRows / 5)});
    const Values losses = Outcome(longer.state, longer.history).history[1];
    EXPECT_LT(std::accumulate(losses.end() - kRows / 5, losses.end(), 0.0),
              std::accumulate(losses.begin(), losses.begin() + kRows / 5, 0.0));
  }
}

TEST_P(StepTest, SeedDeterminesTheRun) {
  const Dataset dataset = test::image_dataset(kRows, kSize).shuffle(3).repeat().batch(5);
  const nn::Layer model = test::cnn_model();
  const Outcome first = train(model, dataset, Kind::recorded, 11);
  expect_equal(first, train(model, dataset, Kind::recorded, 11));
  const Outcome other = train(model, dataset, Kind::recorded, 12);
  EXPECT_NE(first.history, other.history);
}

TEST_P(StepTest, TwoLoopsEqualOne) {
  const nn::Layer model = test::linear_model();
  for (const bool resident : {false, true}) {
    SCOPED_TRACE(resident ? "resident" : "host");
    const auto rows = test::image_dataset(kRows, kSize).shuffle(3).repeat().batch(5);
    const Dataset dataset = resident ? rows.to(device()) : rows;
    const auto step = make_step(model, Kind::recorded);
    auto first = loop(create(model), dataset, {{every(1), step}}, {.stop = at(8)});
    const auto second = loop(std::move(first.state), dataset.skip(8), {{every(1), step}},
                             {.stop = at(20), .elapsed = first.elapsed, .history = std::move(first.history)});
    expect_equal(Outcome(second.state, second.history), train(model, dataset, Kind::eager));
    EXPECT_EQ(step.num_recordings(), 1u);
  }
}

TEST_P(StepTest, OneRecordingForEachShapeAndState) {
  const nn::Layer model = test::linear_model();
  const auto step = make_step(model, Kind::recorded);
  TrainState state = create(model);
  const Dataset dataset = test::image_dataset(kRows, kSize).batch(32);  // 32, 32 and 6
  auto batch = dataset.begin();
  EXPECT_EQ(step.num_recordings(), 0u);
  step(state, *batch);
  step(state, *++batch);
  EXPECT_EQ(step.num_recordings(), 1u);
  step(state, *++batch);
  EXPECT_EQ((*batch).size(), 6);
  EXPECT_EQ(step.num_recordings(), 2u);
  for (const Batch& again : dataset) step(state, again);
  EXPECT_EQ(step.num_recordings(), 2u);

  TrainState other = create(model, 1);
  step(other, first_batch(32));
  EXPECT_EQ(step.num_recordings(), 3u);
  const auto copy = step;  // shares the recordings
  copy(state, first_batch(32));
  copy(other, first_batch(32));
  EXPECT_EQ(step.num_recordings(), 3u);

  // A dataset on the device is another source of batches; a moved state is the same state.
  const Dataset resident = dataset.to(device());
  TrainState moved = std::move(state);
  for (const Batch& on_device : resident) step(moved, on_device);
  EXPECT_EQ(step.num_recordings(), 5u);
  EXPECT_EQ(make_step(model, Kind::eager).num_recordings(), 0u);
}

TEST_P(StepTest, RecordingsOfADestroyedStateAreNeverReplayed) {
  const nn::Layer model = test::linear_model();
  const auto step = make_step(model, Kind::recorded);
  const Batch batch = first_batch(5);
  std::optional<TrainState> state = create(model, 1);
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    // The new state may have the old one's address.
    state.reset();
    state = create(model, seed);
    step(*state, batch);
    EXPECT_EQ(step.num_recordings(), 1u);
    TrainState expected = create(model, seed);
    make_step(model, Kind::eager)(expected, batch);
    expect_equal(Outcome(*state), Outcome(expected));
  }
}

TEST_P(StepTest, ResidentBatchesInAnyOrder) {
  const nn::Layer model = test::linear_model();
  const Dataset rows = test::image_dataset(kRows, kSize).shuffle(1).batch(5);
  const Dataset resident = rows.to(device());
  std::vector<Batch> on_device;
  for (const Batch& batch : resident) on_device.push_back(batch);
  const auto step = make_step(model, Kind::recorded);
  TrainState state = create(model), expected = create(model);
  for (const std::size_t i : {0, 1, 2, 7, 7, 3, 13, 0}) {
    step(state, on_device[i]);
    step(expected, *rows.skip(static_cast<std::int64_t>(i)).begin());
  }
  expect_equal(Outcome(state), Outcome(expected));
}

TEST_P(StepTest, TwoStatesAlternateOnOneResidentDataset) {
  const nn::Layer model = test::linear_model();
  const Dataset rows = test::image_dataset(kRows, kSize).shuffle(1).batch(5);
  const auto train_both = [&](const Dataset& dataset) {
    const auto step = make_step(model, Kind::recorded);
    TrainState a = create(model, 1), b = create(model, 2);
    for (const Batch& batch : dataset) {
      step(a, batch);
      step(b, batch);
    }
    return std::pair{Outcome(a), Outcome(b)};
  };
  const auto resident = train_both(rows.to(device())), host = train_both(rows);
  expect_equal(resident.first, host.first);
  expect_equal(resident.second, host.second);
}

// Copies from pinned memory are queued: to() has to wait for them.
TEST_P(StepTest, ResidentRowsComeFromPinnedMemory) {
  const test::Images images(kRows, kSize);
  const Buffer pinned = Buffer::allocate(device(), images.pixels.size(), MemoryKind::pinned);
  const Buffer labels = Buffer::allocate(device(), images.labels.size(), MemoryKind::pinned);
  std::memcpy(pinned.data(), images.pixels.data(), pinned.size());
  std::memcpy(labels.data(), images.labels.data(), labels.size());
  const Dataset rows({{"image", Tensor(pinned.data(), DType::u8, {kRows, kSize, kSize, 1}, Device::cpu())},
                      {"label", Tensor(labels.data(), DType::u8, {kRows}, Device::cpu())}});
  const nn::Layer model = test::linear_model();
  const Dataset resident = rows.repeat().batch(5).to(device());
  std::memset(pinned.data(), 0, pinned.size());
  std::memset(labels.data(), 0, labels.size());
  expect_equal(train(model, resident, Kind::recorded),
               train(model, test::image_dataset(kRows, kSize).repeat().batch(5), Kind::eager));
}

TEST_P(StepTest, LogsKeepTheirValues) {
  const auto count_up = [](State& state, const Batch&) {
    increment(state.at("count"), 1, state.stream());
    const nn::Var count(state.at("count"), state.stream());
    return logs().add_metric("count", count).add_metric("host", 0.5).add_loss("count", count);
  };
  for (const bool recorded : {true, false}) {
    SCOPED_TRACE(recorded ? "recorded" : "eager");
    State state(device());
    state.add("count", {{"", DType::i64, {}}});
    const auto step = recorded ? jit(count_up) : eager(count_up);
    // More logs than the ring holds, all kept to the end.
    std::vector<Logs> kept;
    for (std::int64_t i = 0; i < 2 * LogRing::kCapacity + 10; ++i) kept.push_back(step(state, Batch()));
    for (std::size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(kept[i].entry_value("metrics.count"), static_cast<double>(i + 1));
      ASSERT_EQ(kept[i].entry_value("losses.count"), static_cast<double>(i + 1));
      ASSERT_EQ(kept[i].entry_value("host"), 0.5);
    }
  }
}

TEST_P(StepTest, LogsOutliveStepAndState) {
  Logs kept;
  {
    const nn::Layer model = test::linear_model();
    TrainState state = create(model);
    kept = make_step(model, Kind::recorded)(state, first_batch(5));
  }
  EXPECT_NEAR(kept.entry_value("loss"), 2.3, 1.5);
}

TEST_P(StepTest, EagerStepsOfTwoStates) {
  const nn::Layer model = test::linear_model();
  const auto step = make_step(model, Kind::eager);
  TrainState a = create(model, 1);
  TrainState b =
      TrainState::create(model, optim::adamw(1e-3),
                         {.inputs = {{"image", DType::u8, {5, kSize, kSize, 1}}}, .seed = 1, .context = Device::cpu()});
  for (int i = 0; i < 3; ++i) {
    const Logs from_a = step(a, first_batch(5)), from_b = step(b, first_batch(5));
    EXPECT_NEAR(from_a.entry_value("loss"), from_b.entry_value("loss"), 1e-4);
  }
}

TEST_P(StepTest, StepsWithoutLogs) {
  const auto body = [](State& state, const Batch&) {
    increment(state.at("count"), 2, state.stream());
    return Logs();
  };
  State state(device());
  state.add("count", {{"", DType::i64, {}}});
  const auto recorded = jit(body), unrecorded = eager(body);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(recorded(state, Batch()).empty());
    EXPECT_TRUE(unrecorded(state, Batch()).empty());
  }
  EXPECT_EQ(to_host<std::int64_t>(state.at("count"), state.stream()).front(), 12);
}

TEST_P(StepTest, ErrorsAreRaisedWhileRecording) {
  const nn::Layer model = test::linear_model();
  TrainState state = create(model);
  const auto fails = [&](ErrorCode code, const std::vector<std::string>& parts, const auto& step, const Batch& batch) {
    const Outcome before(state);
    try {
      step(state, batch);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      for (const std::string& part : parts) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " is not in: " << error.what();
      }
    }
    EXPECT_FALSE(state.stream().is_recording());
    expect_equal(before, Outcome(state));
  };
  const auto step = make_step(model, Kind::recorded);
  const Batch wrong = *test::image_dataset(kRows, 6).batch(5).begin();
  fails(ErrorCode::shape_mismatch, {"(64, 10)", "36"}, step, wrong);
  const auto misnamed = jit([](TrainState&, const Batch& batch) {
    batch["imag"];
    return Logs();
  });
  fails(ErrorCode::not_found, {"'imag'", "'image'"}, misnamed, first_batch(5));
  const auto not_scalar = [](TrainState& s, const Batch&) {
    return logs().add_metric("bias", nn::Var(s.at("params/dense0/bias"), s.stream()));
  };
  fails(ErrorCode::shape_mismatch, {"(10,)"}, jit(not_scalar), first_batch(5));
  fails(ErrorCode::shape_mismatch, {"(10,)"}, eager(not_scalar), first_batch(5));

  // Nothing of a failed recording remains.
  step(state, first_batch(5));
  EXPECT_EQ(step.num_recordings(), 1u);
}

TEST_P(StepTest, StepMayLogAnyNumberOfScalars) {
  State state(device());
  state.add("count", {{"", DType::i64, {}}});
  const auto body = [](State& s, const Batch&) {
    increment(s.at("count"), 1, s.stream());
    Logs many;
    for (int i = 0; i < 70; ++i) many.add_metric(std::to_string(i), nn::Var(s.at("count"), s.stream()));
    return many;
  };
  const auto recorded = jit(body), unrecorded = eager(body);
  for (int i = 1; i <= 3; ++i) {
    const Logs a = recorded(state, Batch()), b = unrecorded(state, Batch());
    for (int entry = 0; entry < 70; ++entry) {
      EXPECT_EQ(a.entry_value(std::to_string(entry)), 2 * i - 1);
      EXPECT_EQ(b.entry_value(std::to_string(entry)), 2 * i);
    }
  }
}

// Regression: each new batch size left another recording behind.
TEST_P(StepTest, RecordingsAreBounded) {
  State state(device());
  state.add("count", {{"", DType::i64, {}}});
  const auto step = jit([](State& s, const Batch& batch) {
    increment(s.at("count"), batch["x"].shape()[0], s.stream());
    return Logs();
  });
  std::vector<float> memory(200);
  const auto batch_of = [&](std::int64_t rows) {
    return Batch({{"x", Tensor(memory.data(), DType::f32, {rows}, Device::cpu())}});
  };
  std::int64_t sum = 0;
  for (std::int64_t rows = 1; rows <= 100; ++rows) {
    step(state, batch_of(rows));
    step(state, batch_of(1));  // used all the time, so it stays
    sum += rows + 1;
    EXPECT_LE(step.num_recordings(), 32u);
  }
  EXPECT_EQ(step.num_recordings(), 32u);
  EXPECT_EQ(to_host<std::int64_t>(state.at("count"), state.stream()).front(), sum);
}

// Regression: a second loop over a moved-from state replayed on freed memory.
TEST_P(StepTest, MovedFromStateIsRejected) {
  const nn::Layer model = test::linear_model();
  const Dataset dataset = test::image_dataset(kRows, kSize).repeat().batch(5).to(device());
  const auto step = make_step(model, Kind::recorded);
  TrainState state = create(model);
  (void)loop(std::move(state), dataset, {{every(1), step}}, {.stop = at(3)});
  try {
    (void)loop(std::move(state), dataset, {{every(1), step}}, {.stop = at(3)});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("moved from"), std::string::npos) << error.what();
  }
}

// A step continues with another state's values, without another recording.
TEST_P(StepTest, StateAssignedFromAnother) {
  const nn::Layer model = test::linear_model();
  const Batch batch = first_batch(5);
  const auto step = make_step(model, Kind::recorded), unrecorded = make_step(model, Kind::eager);
  TrainState state = create(model, 1), other = create(model, 2), expected = create(model, 2);
  step(state, batch);
  unrecorded(other, batch);
  unrecorded(expected, batch);
  state.assign(other);
  step(state, batch);
  unrecorded(expected, batch);
  EXPECT_EQ(step.num_recordings(), 1u);
  expect_equal(Outcome(state), Outcome(expected));
}

// Regression: when a step's batch was at another position than expected, because a second step used it or the step was
// due only every other time, the step had to wait or was wrong.
TEST_P(StepTest, TwoStepsOnOneBatchAndOneThatIsDueEveryOtherTime) {
  const nn::Layer model = test::linear_model();
  const Dataset rows = test::image_dataset(kRows, kSize).shuffle(3).repeat().batch(5);
  std::optional<Outcome> first;
  for (const bool resident : {false, true}) {
    const Dataset dataset = resident ? rows.to(device()) : rows;
    for (const std::int64_t alone : {1, 7, 128}) {
      SCOPED_TRACE(testing::Message() << (resident ? "resident, " : "host, ") << alone);
      const auto look = jit([&](const TrainState& s, const Batch& batch) {
        return logs()
            .add_metric("seen", mean(model(s.params(), batch["image"])))
            .add_metric("norm", mean(nn::Var(s.collection("params").flat(), s.stream())));
      });
      const auto result = loop(create(model), dataset,
                               {{every(1), make_step(model, Kind::recorded)},
                                {every(2), make_step(model, Kind::recorded)},
                                {every(3), look}},
                               {.stop = at(50), .steps_per_execution = alone});
      Outcome outcome(result.state, result.history);
      const auto columns = result.history.collect("seen", "norm");
      outcome.history.insert(outcome.history.end(), columns.begin(), columns.end());
      if (!first) first = outcome;
      expect_equal(outcome, *first);
    }
  }
}

// However many steps the device gets at once, and whatever observes them, the bits are the same and nothing is seen
// twice.
TEST_P(StepTest, DeviceMayRunAnyNumberOfStepsAlone) {
  const nn::Layer model = test::linear_model();
  const Dataset dataset = test::image_dataset(kRows, kSize).shuffle(3).repeat().batch(5).to(device());
  constexpr std::int64_t steps = 300;
  std::optional<Outcome> first;
  for (const std::int64_t alone : {1, 7, 128, 0}) {
    SCOPED_TRACE(alone);
    std::vector<std::int64_t> observed, stopped;
    const auto step = make_step(model, Kind::recorded);
    const auto result = loop(create(model), dataset,
                             {{every(1), step},
                              {every(1),
                               [&](const Elapsed& e, const Logs& l) {
                                 observed.push_back(e.steps);
                                 EXPECT_GT(l.entry_value("loss"), 0);
                               }},
                              {every(170) | last(),
                               [&](const Elapsed& e, const TrainState& s) {
                                 stopped.push_back(e.steps);
                                 EXPECT_EQ(to_host<std::int64_t>(s.at("step"), s.stream()).front(), e.steps + 1);
                               }}},
                             {.stop = at(steps), .steps_per_execution = alone});
    ASSERT_EQ(observed.size(), static_cast<std::size_t>(steps));
    for (std::int64_t i = 0; i < steps; ++i) EXPECT_EQ(observed[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(stopped, (std::vector<std::int64_t>{0, 170, 299}));
    EXPECT_EQ(step.num_recordings(), 1u);
    const Outcome outcome(result.state, result.history);
    if (!first) first = outcome;
    expect_equal(outcome, *first);
  }
}

TEST_P(StepTest, ThrowingObserversLoseNoRecord) {
  const Dataset dataset = test::image_dataset(kRows, kSize).repeat().batch(5).to(device());
  const auto throw_at = [](std::int64_t step) {
    return [step](const Elapsed& e, const Logs&) {
      if (e.steps == step) throw std::runtime_error("disk full");
    };
  };
  std::int64_t observed = 0;
  try {
    (void)loop(create(test::linear_model()), dataset,
               {{every(1), make_step(test::linear_model(), Kind::recorded)},
                {every(1), throw_at(3)},
                {every(1), throw_at(5)},
                {every(1), [&](const Elapsed& e) { EXPECT_EQ(e.steps, observed++); }}},
               {.stop = at(200), .steps_per_execution = 64});
    FAIL() << "no error";
  } catch (const LoopError& error) {
    EXPECT_NE(std::string(error.what()).find("task 2, every(1): a function, at step 3: disk full"), std::string::npos)
        << error.what();
    const TrainState& state = *error.state<TrainState>();
    const std::int64_t steps = to_host<std::int64_t>(state.at("step"), state.stream()).front();
    EXPECT_GE(steps, 64);
    EXPECT_EQ(error.elapsed().steps, steps);
    EXPECT_EQ(error.history().size(), static_cast<std::size_t>(steps));
    EXPECT_EQ(observed, steps);
  }
}

// Regression: device values that a barrier logged were read when the step's row arrived, after later steps had run.
TEST_P(StepTest, BarrierLogsWhatItSaw) {
  const nn::Layer model = test::linear_model();
  const Dataset dataset = test::image_dataset(kRows, kSize).repeat().batch(5).to(device());
  const auto look = [](const TrainState& s) { return logs().add_metric("updates", nn::Var(s.at("step"), s.stream())); };
  for (const std::int64_t alone : {1, 64}) {
    const auto result = loop(create(model), dataset, {{every(10), look}, {every(1), make_step(model, Kind::recorded)}},
                             {.stop = at(45), .steps_per_execution = alone});
    const auto [steps, seen] = result.history.collect("steps", "updates");
    EXPECT_EQ(seen, (Values{0, 10, 20, 30, 40}));
    EXPECT_EQ(seen, steps);
  }
}

// Held-back calls keep the rows that they gather.
TEST_P(StepTest, BatchesOfShortLivedDatasets) {
  const nn::Layer model = test::linear_model();
  const Dataset rows = test::image_dataset(kRows, kSize).batch(10);
  // One dataset after another, each destroyed before the next is made.
  const auto shards = [&] {
    return std::views::iota(0, 6) |
           std::views::transform([&](int shard) { return *rows.skip(shard).to(device()).begin(); });
  };
  std::optional<Outcome> first;
  for (const std::int64_t alone : {1, 50}) {
    auto batches = shards();
    const auto result =
        loop(create(model), batches, {{every(1), make_step(model, Kind::recorded)}}, {.steps_per_execution = alone});
    const Outcome outcome(result.state, result.history);
    if (!first) first = outcome;
    expect_equal(outcome, *first);
  }
}

// Logs that a program keeps do not change, whatever uses the ring later.
TEST_P(StepTest, KeptLogsOutliveTheLoop) {
  State state(device());
  state.add("count", {{"", DType::i64, {}}});
  const auto step = jit([](State& s, const Batch&) {
    increment(s.at("count"), 1, s.stream());
    return logs().add_metric("n", nn::Var(s.at("count"), s.stream()));
  });
  const Logs kept = step(state, Batch());
  const std::vector<Batch> batches(1);
  std::int64_t steps = 0;
  const auto all = std::views::iota(std::int64_t{0}, 2 * LogRing::kCapacity) |
                   std::views::transform([](std::int64_t) { return Batch(); });
  const auto result = loop(std::move(state), all, {{every(1), step}, {every(1), [&](const Elapsed&) { ++steps; }}});
  EXPECT_EQ(steps, 2 * LogRing::kCapacity);
  EXPECT_EQ(kept.entry_value("n"), 1);
  EXPECT_EQ(result.history.collect("n")[0].back(), 2 * LogRing::kCapacity + 1);
}

// The later of two entries with the same name wins, whichever step is recorded.
TEST_P(StepTest, RecordedAndEagerStepsLogInOrder) {
  const auto log = [](double value) {
    return [value](State& s, const Batch&) {
      fill(s.at("x"), value, s.stream());
      return logs().add_metric("x", nn::Var(s.at("x"), s.stream()));
    };
  };
  using Tasks = std::vector<Task<State, Batch>>;
  for (const Tasks& tasks : {Tasks{{every(1), jit(log(1))}, {every(1), eager(log(2))}},
                             Tasks{{every(1), eager(log(1))}, {every(1), jit(log(2))}},
                             Tasks{{every(1), jit(log(1))}, {every(1), jit(log(2))}}}) {
    State state(device());
    state.add("x", {{"", DType::f32, {}}});
    const auto result = loop(std::move(state), std::vector<Batch>(3), tasks);
    EXPECT_EQ(result.history.collect("x")[0], (Values{2, 2, 2}));
  }
}

// A run keeps a limited number of recordings, however many batch sizes it has seen.
TEST_P(StepTest, LoopHoldsNoMoreRecordingsThanAStep) {
  State state(device());
  state.add("count", {{"", DType::i64, {}}});
  const auto step = jit([](State& s, const Batch& batch) {
    increment(s.at("count"), batch["x"].shape()[0], s.stream());
    return logs().add_metric("n", nn::Var(s.at("count"), s.stream()));
  });
  std::vector<float> memory(100);
  std::vector<Batch> batches;
  for (std::int64_t rows = 1; rows <= 100; ++rows) {
    batches.push_back(Batch({{"x", Tensor(memory.data(), DType::f32, {rows}, Device::cpu())}}));
  }
  const auto result = loop(std::move(state), batches, {{every(1), step}});
  EXPECT_EQ(result.history.collect("n")[0].back(), 5050);
  EXPECT_EQ(step.num_recordings(), 32u);
}

// The failing step is named, however its held-back calls are launched.
TEST_P(StepTest, CallFailingInALaunchIsNamed) {
  if (device().is_cuda()) return;  // host functions run only on the CPU
  const auto step = jit([](State& s, const Batch&) {
    submit(s.stream(), [calls = std::make_shared<int>(0)] {
      if (++*calls == 4) throw std::runtime_error("mine");
    });
    return Logs();
  });
  for (const std::int64_t alone : {1, 10}) {
    State state(device());
    state.add("x", {{"", DType::f32, {}}});
    try {
      (void)loop(std::move(state), test::image_dataset(kRows, kSize).batch(2).to(device()), {{every(1), step}},
                 {.steps_per_execution = alone});
      FAIL() << "no error";
    } catch (const LoopError& error) {
      EXPECT_NE(std::string(error.what()).find("task 1, every(1): a step"), std::string::npos) << error.what();
    }
  }
}

TEST_P(StepTest, MoreStepsThanTheLogsHoldAtOnce) {
  const nn::Layer model = test::linear_model();
  const Dataset dataset = test::image_dataset(kRows, kSize).repeat().batch(5).to(device());
  constexpr std::int64_t kSteps = LogRing::kCapacity + LogRing::kCapacity / 2;
  const auto result = loop(create(model), dataset, {{every(1), make_step(model, Kind::recorded)}},
                           {.stop = at(kSteps), .steps_per_execution = 2 * kSteps});
  const auto [steps, loss] = result.history.collect("steps", "loss");
  ASSERT_EQ(steps.size(), static_cast<std::size_t>(kSteps));
  for (std::size_t i = 1; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i], steps[i - 1] + 1);
    EXPECT_GT(loss[i], 0);
  }
}

TEST_P(StepTest, DeferredStepRunsBeforeAnother) {
  const nn::Layer model = test::linear_model();
  const Dataset dataset = test::image_dataset(kRows, kSize).shuffle(3).repeat().batch(5).to(device());
  const auto step = make_step(model, Kind::recorded);
  // Changes the parameters that the next step starts from.
  const auto halve = jit([](TrainState& s, const Batch&) {
    const Tensor params = s.collection("params").flat();
    scale(params, params, 0.5, s.stream());
    return Logs();
  });
  std::optional<Outcome> first;
  for (const std::int64_t alone : {1, 128}) {
    const auto result = loop(create(model), dataset, {{every(1), step}, {every(5), halve}},
                             {.stop = at(23), .steps_per_execution = alone});
    const Outcome outcome(result.state, result.history);
    if (!first) first = outcome;
    expect_equal(outcome, *first);
  }
}

TEST_P(StepTest, BroadcastsNeedNoNewRecording) {
  State state(device());
  state.add("sum", {{"", DType::f32, {}}});
  const auto body = [](State& s, const Batch&, const Broadcasts& values) {
    const nn::Var total = add(nn::Var(s.at("sum"), s.stream()), nn::Var(values["amount"]));
    cast(s.at("sum"), total.value(), s.stream());
    return logs().add_metric("sum", total);
  };
  for (const auto& step : {jit(body), eager(body)}) {
    state.stream().fill(state.at("sum").raw(), 0, sizeof(float));
    std::vector<Logs> seen;
    for (int i = 1; i <= 6; ++i) seen.push_back(step(state, Batch(), {{"amount", 0.5 * i}}));
    Values sums;
    for (const Logs& l : seen) sums.push_back(l.entry_value("sum"));
    EXPECT_EQ(sums, (Values{0.5, 1.5, 3, 5, 7.5, 10.5}));
    EXPECT_LE(step.num_recordings(), 1u);
  }
  const auto step = jit(body);
  step(state, Batch(), {{"amount", 1.0}});
  step(state, Batch(), {{"amount", 1.0}, {"other", 1.0}});
  EXPECT_EQ(step.num_recordings(), 2u);
  // Named as a broadcast, although it is kept like a batch's feature.
  test::expect_error(ErrorCode::not_found, {"no broadcast 'amount' in the call of the step, which has amont, other"},
                     [&] {
                       step(state, Batch(), {{"amont", 1.0}, {"other", 1}});
                     });
  test::expect_error(ErrorCode::not_found, {"no broadcast 'amount' in the call of the step, which has none"},
                     [&] { step(state, Batch()); });
}

TEST_P(StepTest, LoopBroadcastsItsTime) {
  State state(device());
  state.add("leaf", {{"", DType::f32, {}}});
  const auto step = jit([](State& s, const Batch&, const Broadcasts& values) {
    return logs()
        .add_metric("steps_seen", values["steps"])
        .add_metric("samples_seen", values["samples"])
        .add_metric("is_late", values["steps"] >= (std::int64_t{1} << 24) + 3)
        .add_metric("share", nn::Var(s.at("leaf"), s.stream()) + values["steps"] * 0x1p-24);
  });
  const Dataset dataset = test::image_dataset(kRows, kSize).repeat().batch(5).to(device());
  // Counters are exact where f32 is not, which has no odd numbers from 2^24 on.
  for (const std::int64_t first : {std::int64_t{0}, (std::int64_t{1} << 24) + 1}) {
    const std::int64_t samples_before = first > 0 ? (std::int64_t{1} << 53) - 20 : 0;
    auto result = loop(std::move(state), dataset, {{every(1), step}},
                       {.stop = at(first + 4), .elapsed = {.steps = first, .samples = samples_before}});
    state = std::move(result.state);
    const auto [steps, samples, late, share] = result.history.collect("steps_seen", "samples_seen", "is_late", "share");
    const auto counted = [](std::int64_t from, std::int64_t by) {
      Values values;
      for (std::int64_t i = 0; i < 4; ++i) values.push_back(static_cast<double>(from + by * i));
      return values;
    };
    EXPECT_EQ(steps, counted(first, 1));
    EXPECT_EQ(samples, counted(samples_before, 5));
    EXPECT_EQ(late, (first > 0 ? Values{0, 0, 1, 1} : Values{0, 0, 0, 0}));
    for (std::size_t i = 0; i < share.size(); ++i) {  // with a fraction they are f32
      EXPECT_EQ(share[i], static_cast<float>(steps[i]) * 0x1p-24f);
    }
    EXPECT_EQ(result.history.column("elapsed.samples"), samples);
  }
}

struct Depth {
  int value = 1;
  friend bool operator==(const Depth&, const Depth&) = default;
};

TEST_P(StepTest, EachStaticsValueHasARecording) {
  State state(device());
  state.add("count", {{"", DType::i64, {}}});
  int bodies = 0;
  const auto step = jit([&](State& s, const Depth& depth) {
    ++bodies;
    for (int i = 0; i < depth.value; ++i) increment(s.at("count"), 1, s.stream());
    return Logs();
  });
  for (int round = 0; round < 3; ++round) {
    step(state, Batch());
    step(state, Batch(), {}, Depth{4});
    step.with(Depth{10})(state, Batch());
  }
  EXPECT_EQ(to_host<std::int64_t>(state.at("count"), state.stream()).front(), 3 * (1 + 4 + 10));
  EXPECT_EQ(step.num_recordings(), 3u);
  EXPECT_EQ(bodies, 3);
}

TEST_P(StepTest, ArraysAreLoggedAsOutputs) {
  const nn::Layer model = test::linear_model();
  const Dataset rows = test::image_dataset(kRows, kSize).batch(32);
  for (const bool resident : {false, true}) {
    const auto predict = [model](const TrainState& s, const Batch& batch) {
      const nn::Var logits = model(s.params(), batch["image"]);
      return logs()
          .add_output("logits", logits)
          .add_metric("loss", mean(softmax_cross_entropy(logits, batch["label"])));
    };
    const auto run = [&](const auto& step) {
      return loop(create(model), resident ? rows.to(device()) : rows, {{every(1), step}}).outputs;
    };
    const Outputs recorded = run(jit(predict)), unrecorded = run(eager(predict));
    EXPECT_EQ(recorded.size(), 3u);
    const HostArray all = recorded.concatenate("logits");
    EXPECT_EQ(all.shape(), (Shape{kRows, 10}));
    const HostArray expected = unrecorded.concatenate("logits");
    EXPECT_EQ(std::memcmp(all.tensor().raw(), expected.tensor().raw(), all.tensor().bytes()), 0);
    TrainState state = create(model);
    const Logs one = jit(predict)(std::as_const(state), resident ? *rows.to(device()).begin() : *rows.begin());
    const HostArray first = one.output("logits");
    EXPECT_EQ(std::memcmp(first.tensor().raw(), expected.tensor().raw(), first.tensor().bytes()), 0);
    const auto arrays = recorded.collect("logits");
    EXPECT_NE(std::memcmp(arrays[0].tensor().raw(), arrays[1].tensor().raw(), arrays[0].tensor().bytes()), 0);
  }
}

// A recording does not keep its dataset alive.
TEST_P(StepTest, RecordingsAreReleasedWithTheirDataset) {
  const nn::Layer model = test::linear_model();
  TrainState state = create(model);
  const auto step = make_step(model, Kind::recorded);
  const Dataset rows = test::image_dataset(kRows, kSize).batch(5);
  std::weak_ptr<ResidentRows> resident_rows;
  for (int i = 0; i < 5; ++i) {
    const Dataset resident = rows.to(device());
    const Batch batch = *resident.begin();
    resident_rows = batch.resident_rows();
    step(state, batch);
    EXPECT_EQ(step.num_recordings(), 1u);
  }
  EXPECT_TRUE(resident_rows.expired());
}

// A step that fails after its gather does not take the next step's rows.
TEST_P(StepTest, FailedStepDoesNotAffectRowsOfTheNext) {
  const nn::Layer model = test::linear_model();
  const Dataset rows = test::image_dataset(kRows, kSize).shuffle(1).batch(5);
  const Dataset resident = rows.to(device());
  const auto body = [model](TrainState& s, const Batch& batch) {
    if (to_host<std::int64_t>(s.at("step"), s.stream()).front() == 1) throw std::runtime_error("once");
    return logs().add_metric("loss", mean(softmax_cross_entropy(model(s.params(), batch["image"]), batch["label"])));
  };
  const auto train = make_step(model, Kind::eager);
  TrainState state = create(model), expected = create(model);
  std::vector<Batch> batches;
  for (const Batch& batch : resident) batches.push_back(batch);
  const auto fails = eager(body);
  train(state, batches[0]);
  EXPECT_THROW(fails(state, batches[1]), std::runtime_error);
  train(state, batches[1]);
  train(expected, *rows.begin());
  train(expected, *rows.skip(1).begin());
  expect_equal(Outcome(state), Outcome(expected));
}

TEST_P(StepTest, EagerStepContinuesAfterAnError) {
  State state(device());
  state.add("count", {{"", DType::i64, {}}});
  state.add("vector", {{"", DType::f32, {2}}});
  const auto step = eager([good = false](State& s, const Batch&) mutable {
    good = !good;
    increment(s.at("count"), 1, s.stream());
    return logs().add_metric("a", nn::Var(s.at(good ? "count" : "vector"), s.stream()));
  });
  EXPECT_EQ(step(state, Batch()).entry_value("a"), 1);
  EXPECT_THROW(step(state, Batch()), Error);
  EXPECT_EQ(step(state, Batch()).entry_value("a"), 3);
}

TEST_P(StepTest, BatchOnAnotherDevice) {
  if (device().is_cpu()) GTEST_SKIP() << "needs two devices";
  const nn::Layer model = test::linear_model();
  TrainState state = create(model);
  const Dataset elsewhere = test::image_dataset(kRows, kSize).batch(5).to(Device::cpu());
  EXPECT_THROW(make_step(model, Kind::recorded)(state, *elsewhere.begin()), Error);

  // Also at a later call: a batch of the same shape, for a state on the CPU.
  TrainState here = TrainState::create(
      model, optim::adamw(1e-3), {.inputs = {{"image", DType::u8, {5, kSize, kSize, 1}}}, .context = Device::cpu()});
  const auto step = make_step(model, Kind::recorded);
  const Batch batch = first_batch(5);
  step(here, batch);
  Batch::Features features;
  std::vector<Buffer> memory;
  for (const auto& [name, tensor] : batch.features()) {
    memory.push_back(Buffer::allocate(device(), tensor.bytes()));
    features.emplace_back(name, Tensor(memory.back().data(), tensor.dtype(), tensor.shape(), device()));
  }
  EXPECT_THROW(step(here, Batch(features)), Error);
}

TEST_P(StepTest, MemoryDoesNotGrow) {
  const nn::Layer model = test::linear_model();
  const Dataset rows = test::image_dataset(kRows, kSize).shuffle(3).repeat().batch(5);
  for (const bool resident : {false, true}) {
    for (const Kind kind : {Kind::recorded, Kind::eager}) {
      const Dataset dataset = resident ? rows.to(device()) : rows;
      const auto step = make_step(model, kind);
      TrainState state = create(model);
      auto batch = dataset.begin();
      const auto run_steps = [&](int steps) {
        for (int i = 0; i < steps; ++i, ++batch) step(state, *batch);
        return state.stream().impl().arena->reserved_bytes();
      };
      const std::size_t reserved = run_steps(2);
      EXPECT_EQ(run_steps(device().is_cuda() ? 200 : 1'000), reserved);
      EXPECT_EQ(step.num_recordings(), kind == Kind::recorded ? 1u : 0u);
    }
  }
}

// The sample's final evaluation: loss and accuracy over a whole dataset with a ragged last batch.
TEST_P(StepTest, EvaluationIsTheMeanOverAllRows) {
  const nn::Layer model = test::cnn_model();
  TrainState state = create(model);
  const Outcome before(state);
  const auto step = jit([&](const TrainState& s, const Batch& batch) {
    const nn::Var y = model(s.params(), batch["image"]);
    return logs()
        .add_metric("loss", mean(softmax_cross_entropy(y, batch["label"])))
        .add_metric("accuracy", accuracy(y, batch["label"]));
  });
  const auto evaluate = [&](const Dataset& dataset) {
    auto result = loop(std::move(state), dataset, {{every(1), step}});
    state = std::move(result.state);
    return aggregate(result.history, "mean");
  };
  const Dataset rows = test::image_dataset(kRows, kSize);
  const Logs whole = evaluate(rows.batch(kRows));
  for (const bool resident : {false, true}) {
    const Dataset dataset = resident ? rows.batch(32).to(device()) : rows.batch(32);
    const Logs parts = evaluate(dataset);
    EXPECT_NEAR(parts.entry_value("loss"), whole.entry_value("loss"), 1e-5);
    EXPECT_NEAR(parts.entry_value("accuracy"), whole.entry_value("accuracy"), 1e-6);
  }
  EXPECT_EQ(step.num_recordings(), 5u);
  expect_equal(before, Outcome(state));
}

// A device step's logs reach observers in step order, and barriers find them complete.
TEST_P(StepTest, ObserversAndBarriersOfDeviceSteps) {
  const nn::Layer model = test::linear_model();
  const Dataset dataset = test::image_dataset(kRows, kSize).repeat().batch(5);
  Values observed;
  std::vector<std::size_t> seen;
  const auto result =
      loop(create(model), dataset,
           {{every(1), make_step(model, Kind::recorded)},
            {every(1),
             [&](const Elapsed& e, const Logs& l) {
               EXPECT_EQ(static_cast<std::size_t>(e.steps), observed.size());
               observed.push_back(l.entry_value("loss"));
             }},
            {every(10),
             [&](LoopState<TrainState, Batch>& l) {
               EXPECT_EQ(to_host<std::int64_t>(l.state.at("step"), l.state.stream()).front(), l.elapsed.steps + 1);
               EXPECT_EQ(observed.size(), l.history.size());
               EXPECT_GT(l.logs.entry_value("loss"), 0);
               seen.push_back(l.history.size());
             }}},
           {.stop = at(35)});
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 10, 20, 30}));
  EXPECT_EQ(result.history.collect("loss")[0], observed);
}

INSTANTIATE_TEST_SUITE_P(Devices, StepTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
