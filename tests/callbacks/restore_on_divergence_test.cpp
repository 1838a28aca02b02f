#include <giro/callbacks/restore_on_divergence.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/resume.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/loop.h>
#include <giro/runtime/files/checkpoint_store.h>

#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_partitioner.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/sanitized.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/training.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// A state with a scale, and a sum of the batches that it was trained with.
State counted_state() {
  State state(Device::cpu());
  *state.add("learning_rate_scale", {{"", DType::f32, {}}}).leaves().front().value.data<float>() = 1;
  state.add("sum", {{"", DType::f64, {}}});
  return state;
}
double sum(const State& state) { return *state.at("sum").data<double>(); }
float scale(const State& state) { return *state.at("learning_rate_scale").data<float>(); }

// Adds batch k's number k, and logs the k-th loss.
auto train_diverging_on(const std::vector<double>& losses) {
  return [losses](State& state, const int& batch) {
    *state.at("sum").data<double>() += batch;
    return logs().add_metric("loss", losses.at(static_cast<std::size_t>(batch)));
  };
}
std::vector<int> diverging_batches(std::size_t count) {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(static_cast<int>(i));
  return numbers;
}

// The restore happens in step 4 and takes the checkpoint of step 3, after batches 0, 1 and 2.
TEST(RestoreOnDivergence, RestoresAndContinuesWithTheNextBatch) {
  const test::TemporaryDirectory dir;
  const std::vector<double> losses{5, 4, 3, 2, kNotANumber, 2, 1};
  const RestoreOnDivergence back = restore_on_divergence(dir.path());
  auto [state, history, elapsed] =
      loop(counted_state(), diverging_batches(7),
           {{every(1), {train_diverging_on(losses), back}}, {every_end(3), checkpoint(dir.path())}});
  EXPECT_EQ(elapsed.steps, 7);
  EXPECT_EQ(sum(state), 0 + 1 + 2 + 5 + 6);
  EXPECT_EQ(scale(state), 0.5f);
  EXPECT_EQ(back.restores(), 1);
  EXPECT_EQ(back.report(), "loss is nan at step 4: restored '" + dir.path() +
                               "/checkpoint_0000000003', learning_rate_scale is 0.5, restore 1 of 3");
  const auto [steps, restores] = history.collect("steps", "restores");
  EXPECT_EQ(steps, std::vector<double>{4});
  EXPECT_EQ(restores, std::vector<double>{1});
  EXPECT_EQ(history.column("learning_rate_scale"), std::vector<double>{0.5});
}

TEST(RestoreOnDivergence, SpikeIsRelativeToTheRecentMean) {
  const auto restores = [](const std::vector<double>& losses, double spike) {
    const test::TemporaryDirectory dir;
    const RestoreOnDivergence back = restore_on_divergence(dir.path(), {.spike = spike});
    (void)loop(counted_state(), diverging_batches(losses.size()),
               {{every(1), {train_diverging_on(losses), back}}, {every(1), checkpoint(dir.path())}});
    return back.restores();
  };
  EXPECT_EQ(restores({1, 1.9, 2.1}, 2), 0);  // the mean is then 1.09
  EXPECT_EQ(restores({1, 1.9, 2.2}, 2), 1);
  EXPECT_EQ(restores({1, 1, 100, 200, 300}, 0), 0);
  EXPECT_EQ(restores({1, 1, 100, 150, 150, 1}, 2), 3);  // the mean covers good values only
  EXPECT_EQ(restores({1, 1, std::numeric_limits<double>::infinity(), 1}, 2), 1);
}

TEST(RestoreOnDivergence, IgnoresCheckpointsOfAnotherRun) {
  const test::TemporaryDirectory dir;
  (void)loop(counted_state(), diverging_batches(5), {{every_end(5), checkpoint(dir.path())}});
  const RestoreOnDivergence back = restore_on_divergence(dir.path());
  const std::vector<double> losses{1, kNotANumber};
  expect_error(ErrorCode::not_found, {"loss is nan at step 1", "no intact checkpoint"}, [&] {
    (void)loop(counted_state(), diverging_batches(2), {{every(1), {train_diverging_on(losses), back}}});
  });
}

// Another run with the same callback may restore as often again.
TEST(RestoreOnDivergence, NewRunResetsItsCounts) {
  const test::TemporaryDirectory dir;
  const RestoreOnDivergence back = restore_on_divergence(dir.path(), {.max_restores = 1});
  for (int run = 0; run < 2; ++run) {
    const std::vector<double> losses{1, kNotANumber, 1};
    const auto result = loop(counted_state(), diverging_batches(3),
                             {{every(1), {train_diverging_on(losses), back}}, {every_end(1), checkpoint(dir.path())}});
    EXPECT_EQ(result.elapsed.steps, 3);
    EXPECT_EQ(back.restores(), 1);
    std::filesystem::remove_all(dir.path());
  }
}

// A loss that is logged seldom and was bad before the restore is not judged again.
TEST(RestoreOnDivergence, ReadsOnlyLogsSinceTheRestore) {
  const test::TemporaryDirectory dir;
  const std::vector<double> losses{1, 1, 1, kNotANumber, 1, 1, 1, 1, kNotANumber, 1};
  const auto logs_loss = [](const Elapsed& elapsed) {
    return std::set{0, 3, 8}.contains(static_cast<int>(elapsed.steps));
  };
  const RestoreOnDivergence back = restore_on_divergence(dir.path());
  std::vector<std::int64_t> restores;
  (void)loop(counted_state(), diverging_batches(10),
             {{every(1), checkpoint(dir.path(), {.keep = 3})},
              {logs_loss, train_diverging_on(losses)},
              {every(2), back},
              {every(1), [&](State&) { restores.push_back(back.restores()); }}});
  // The NaN of step 3 is seen in step 4; the next loss is logged in step 8.
  EXPECT_EQ(restores, (std::vector<std::int64_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2}));
}

// From the checkpoint of step 4 the loss becomes NaN at once, so the one before is better.
TEST(RestoreOnDivergence, TriesAnOlderCheckpointIfTheNewestDivergesAgain) {
  for (const auto& [keep, bad] : {std::pair{1, kNotANumber}, {2, kNotANumber}, {2, 100.0}}) {
    const test::TemporaryDirectory dir;
    const std::vector<double> losses{1, 1, 1, 1, bad, bad, 1, 1};
    const RestoreOnDivergence back = restore_on_divergence(dir.path(), {.spike = 2, .factor = 0.25});
    const auto [state, history, elapsed] =
        loop(counted_state(), diverging_batches(8),
             {{every(1), {train_diverging_on(losses), back}},
              {[](const Elapsed& elapsed) { return elapsed.steps == 1 || elapsed.steps == 3; },
               checkpoint(dir.path(), {.keep = keep})}});
    EXPECT_EQ(back.restores(), 2);
    EXPECT_EQ(scale(state), 0.0625f);  // the checkpoints have a scale of 1
    EXPECT_EQ(sum(state), (keep == 1 ? 0 + 1 + 2 + 3 : 0 + 1) + 6 + 7);
  }
}

TEST(RestoreOnDivergence, SkipsNonFiniteAndDamagedCheckpoints) {
  const test::TemporaryDirectory dir;
  const std::vector<double> losses{1, 1, 1, 1, kNotANumber, 1};
  const RestoreOnDivergence back = restore_on_divergence(dir.path());
  const auto harm = [&](State& state, const Elapsed& elapsed) {
    if (elapsed.steps == 3) *state.at("sum").data<double>() = kNotANumber;
    if (elapsed.steps == 4) std::filesystem::resize_file(dir / "checkpoint_0000000003/state.safetensors", 10);
  };
  const auto [state, history, elapsed] = loop(counted_state(), diverging_batches(6),
                                              {{every(1), {train_diverging_on(losses), harm, back}},
                                               {!every(5), checkpoint(dir.path(), {.keep = 9, .not_finite = "save"})}});
  EXPECT_EQ(sum(state), 0 + 1 + 5);
  EXPECT_TRUE(back.report().find("checkpoint_0000000002'") != std::string::npos) << back.report();
}

// Which checkpoint is the newest does not depend on how fast they are written.
TEST(RestoreOnDivergence, WaitsForASaveInProgress) {
  struct SlowFiles : test::FaultyFileSystem {
    void rename(const std::string& from, const std::string& to) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      FaultyFileSystem::rename(from, to);
    }
  };
  const test::TemporaryDirectory dir;
  const auto [state, history, elapsed] = loop(
      counted_state(), diverging_batches(4),
      {{every(1), {train_diverging_on({1, 1, kNotANumber, 1}), restore_on_divergence(dir.path())}},
       {every(1), checkpoint(dir.path(), {.keep = 2, .asynchronous = true, .files = std::make_shared<SlowFiles>()})}});
  EXPECT_EQ(sum(state), 0 + 1 + 3);
}

TEST(RestoreOnDivergence, StopsAfterMaxRestores) {
  const test::TemporaryDirectory dir;
  const std::vector<double> losses{1, 1, kNotANumber, 1, kNotANumber, 1, kNotANumber, 1};
  const RestoreOnDivergence back = restore_on_divergence(dir.path(), {.max_restores = 2});
  const auto result =
      loop(counted_state(), diverging_batches(8),
           {{every(1), {train_diverging_on(losses), back}}, {every_end(2) | last(), checkpoint(dir.path())}});
  EXPECT_EQ(result.ended, StopReason::stopped);
  EXPECT_EQ(result.elapsed.steps, 7);
  EXPECT_EQ(scale(result.state), 0.25f);
  EXPECT_EQ(back.report(), "loss is nan at step 6, after 2 restores");
  // The state that has diverged was not saved.
  EXPECT_EQ(CheckpointStore(dir.path()).latest_steps(), 6);
}

TEST(RestoreOnDivergence, NothingToRestoreIsAnError) {
  const test::TemporaryDirectory dir;
  const auto run = [&] {
    (void)loop(counted_state(), diverging_batches(2),
               {{every(1), {train_diverging_on({1, kNotANumber}), restore_on_divergence(dir / "model")}}});
  };
  expect_error(ErrorCode::not_found,
               {"restore_on_divergence: loss is nan at step 1", "/model' has no intact checkpoint"}, run);
  {
    State state = counted_state();
    checkpoint(dir / "model")(Elapsed{.steps = 1}, state);
  }
  std::filesystem::resize_file(dir / "model/checkpoint_0000000002/state.safetensors", 10);
  expect_error(ErrorCode::not_found, {"has no intact checkpoint of a finite state", "state.safetensors"}, run);
}

TEST(RestoreOnDivergence, Errors) {
  const auto refuses = [](const std::string& what, const RestoreOnDivergenceOptions& options) {
    expect_invalid({what}, [&] { restore_on_divergence("dir", options); });
  };
  refuses("spike", {.spike = 1});
  refuses("spike", {.spike = kNotANumber});
  refuses("factor", {.factor = 1});
  refuses("factor", {.factor = 0});
  refuses("max_restores", {.max_restores = 0});
  refuses("entry", {.monitor = ""});
  expect_invalid({"directory"}, [] { restore_on_divergence(""); });
  expect_error(ErrorCode::not_found, {"'los'", "did you mean 'loss'"}, [] {
    (void)loop(counted_state(), diverging_batches(1),
               {{every(1), {train_diverging_on({1}), restore_on_divergence("dir", {.monitor = "los"})}}});
  });
  const test::TemporaryDirectory dir;
  expect_error(ErrorCode::not_found, {"learning_rate_scale"}, [&] {
    State state(Device::cpu());
    state.add("sum", {{"", DType::f64, {}}});
    (void)loop(std::move(state), diverging_batches(2),
               {{every(1), {train_diverging_on({1, kNotANumber}), restore_on_divergence(dir.path())}},
                {every(1), checkpoint(dir.path())}});
  });
}

// When one rank diverges, all ranks restore, from the checkpoint that rank 0 names.
TEST(RestoreOnDivergence, RanksDecideTogether) {
  struct Ranks : test::FakePartitioner {
    using FakePartitioner::FakePartitioner;
    void all_reduce_max(std::span<double> values) const override {
      FakePartitioner::all_reduce_max(values);
      if (values.size() == 1 && std::exchange(diverges, false)) values[0] = 1;
    }
    std::string broadcast(const std::string& text) const override {
      if (rank() == 0) return text;
      return std::exchange(asks_for_value, false) ? "+min 0x1p+0" : path;
    }
    mutable bool diverges = false;  // reports it once
    mutable bool asks_for_value = true;
    std::string path;
  };
  struct Shared : State {
    explicit Shared(State state) : State(std::move(state)) {}
    std::shared_ptr<const Ranks> ranks;
    std::shared_ptr<const Partitioner> partitioner() const { return ranks; }
  };
  const test::TemporaryDirectory dir;
  {
    State state = counted_state();
    *state.at("sum").data<double>() = 8;
    checkpoint(dir.path())(Elapsed{}, state);
  }
  for (const int rank : {0, 1}) {
    const auto ranks = std::make_shared<Ranks>(rank, 2);
    ranks->diverges = true;
    ranks->path = dir / "checkpoint_0000000001";
    Shared state(counted_state());
    state.ranks = ranks;
    RestoreOnDivergence back = restore_on_divergence(dir.path());
    const auto result = loop(std::move(state), diverging_batches(1),
                             {{every(1),
                               {[](Shared&) { return logs().add_metric("loss", 1); }, back,
                                [](Shared& s) { *s.at("sum").data<double>() += 1; }}}},
                             {.catch_signals = false});
    EXPECT_EQ(sum(result.state), 9) << "rank " << rank;
    EXPECT_EQ(back.restores(), 1) << "rank " << rank;
  }
}

class RestoreOnDivergenceTest : public test::OpTest {
 protected:
  struct Left {
    std::map<std::string, std::vector<std::uint8_t>> state;
    double first = 0, last = 0;
    std::int64_t restores = 0;
  };

  // Trains a regression, at a learning rate at which it diverges, up to `until` or to the end.
  static Left run(Device device, const std::string& dir, std::optional<std::int64_t> until, bool asynchronous) {
    constexpr std::int64_t kSteps = 60;
    const Dataset train = test::image_dataset(70, 4).shuffle(3).repeat().batch(10);
    const nn::Layer model = test::linear_model();
    const auto train_step = jit(test::training([&](const nn::Params& params, const Batch& batch) {
      return mean(square(model(params, batch["image"]) - 1.0));
    }));
    RestoreOnDivergence back = restore_on_divergence(dir + "/model", {.spike = 4, .factor = 0.3, .max_restores = 9});
    giro::Run run(TrainState::create(model, optim::sgd(kRate), {.inputs = train.spec(), .seed = 1, .context = device}),
                  train,
                  {{every(1), train_step},
                   {every(2), back},
                   {every(2), checkpoint(dir + "/model", {.keep = 2, .asynchronous = asynchronous})}},
                  {.stop = at(kSteps), .on_start = {resume(dir + "/model")}});
    Left left;
    if (run.advance(until ? at(*until) : Period{}) == StopReason::reached) return left;
    auto result = run.finish();
    left.restores = back.restores();
    left.state = test::saved_bytes(result.state);
    const std::vector<double> losses = result.history.column("loss");
    left.first = losses.front();
    left.last = losses.back();
    return left;
  }
  static constexpr double kRate = 3;
};

TEST_P(RestoreOnDivergenceTest, DivergingRunRecovers) {
  const test::TemporaryDirectory dir;
  const Left left = run(device(), dir.path(), {}, false);
  EXPECT_GE(left.restores, 1);
  EXPECT_LT(left.restores, 9);
  EXPECT_LT(left.last, left.first / 2);
}

TEST_P(RestoreOnDivergenceTest, ContinuesAfterAnyStepAsIfUninterrupted) {
  const test::TemporaryDirectory whole_dir;
  const Left whole = run(device(), whole_dir.path(), {}, false);
  for (std::int64_t cut = 1; cut < 30; cut += device().is_cpu() && !test::kSanitized ? 3 : 11) {
    SCOPED_TRACE(cut);
    const test::TemporaryDirectory dir;
    (void)run(device(), dir.path(), cut, cut % 2 == 0);
    const Left rest = run(device(), dir.path(), {}, cut % 2 == 0);
    EXPECT_EQ(rest.restores, whole.restores);
    EXPECT_EQ(rest.state, whole.state);
    EXPECT_EQ(rest.last, whole.last);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RestoreOnDivergenceTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
