// Training with sharded moments, and the checkpoints that the ranks write together.

#include <giro/giro.h>

#include <fmt/format.h>
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
#include "tests/support/tensor_ops.h"

namespace giro::test {
namespace {

class ShardsOfRanks : public testing::Test {
 protected:
  ShardsOfRanks() : partitioner_(zero_data_parallel(world(), test_device())) {}
  ~ShardsOfRanks() override { meet(); }  // all ranks must be done with the directory before it is removed

  void meet() const {
    double nothing = 0;
    partitioner_->all_reduce_max({&nothing, 1});
  }

  TrainState make_state(std::shared_ptr<const Partitioner> partitioner) const {
    return TrainState::create(model(), optim::adamw(1e-2),
                              {.inputs = {{"x", DType::f32, {1, kFeatures}}},
                               .seed = 3,
                               .context = test_device(),
                               .partitioner = std::move(partitioner)});
  }
  TrainState make_state() const { return make_state(partitioner_); }
  Dataset rows() const { return random_rows().shuffle(5).repeat().batch(48).partition(partitioner_); }
  std::string dir(const std::string& name) const { return dir_ + "/" + name; }
  static std::vector<float> params_of(const TrainState& state) {
    return to_host<float>(state.collection("params").flat(), state.stream());
  }
  // Expects a checkpoint to hold this rank's part of `state`.
  void expect_saved(const TrainState& state, const std::string& dir, std::int64_t steps) const {
    meet();  // rank 0's save has finished too
    const LoadedCheckpoint loaded = load_checkpoint(dir);
    EXPECT_EQ(loaded.record.steps, steps);
    TrainState restored = TrainState::create(model(), optim::adamw(1e-2),
                                             {.inputs = {{"x", DType::f32, {1, kFeatures}}},
                                              .seed = 4,
                                              .context = test_device(),
                                              .partitioner = state.partitioner()});
    load_into(restored, loaded.leaves);
    for (const char* name : {"params", "opt_state/mu", "opt_state/nu"}) {
      EXPECT_EQ(to_host<float>(restored.collection(name).flat(), restored.stream()),
                to_host<float>(state.collection(name).flat(), state.stream()))
          << name;
    }
  }

  const std::shared_ptr<const Partitioner> partitioner_;
  const TemporaryDirectory own_;
  const std::string dir_ = partitioner_->broadcast(own_.path());
};

TEST_F(ShardsOfRanks, MicroBatchesAndShortBatchesGiveTheSameUpdates) {
  const auto train = [&](const std::shared_ptr<const Partitioner>& partitioner, std::int64_t batch, int parts) {
    Dataset data = random_rows().shuffle(5).batch(batch).partition(partitioner);
    return params_of(loop(make_state(partitioner), data, {{every(1), make_step(parts)}}).state);
  };
  // 96 rows in batches of 36, 36 and 24, with fewer rows on the last ranks; or of 48, in micro-batches that divide
  // them.
  for (const auto& [batch, parts] : {std::pair<std::int64_t, int>{36, 1}, {48, 4}}) {
    const std::vector<float> whole = train(nullptr, batch, 1), sharded = train(partitioner_, batch, parts);
    ASSERT_LE(whole.size(), sharded.size());  // padding makes the parts equal
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(sharded[i], whole[i], 2e-4) << i;
  }
}

// As in docs/distributed.md.
TEST_F(ShardsOfRanks, UserDefinedParameterAverage) {
  TrainState state = make_state();
  const Collection& params = state.collection("params");
  const Collection& average = state.add("average", params.specs(), params.options());
  cast(average.flat(), params.flat(), state.stream());
  const auto step = jit([](TrainState& s, const Batch& batch) {
    const nn::Var loss = s.value_and_grad(
        [&](auto& leaves) { return mean(softmax_cross_entropy(s.model()(leaves, batch["x"]), batch["label"])); });
    s.apply_gradients();
    const Tensor leaf = s.collection("average").flat();
    const nn::Var before(leaf, s.stream()), now(s.collection("params").flat(), s.stream());
    cast(leaf, (0.75 * before + 0.25 * now).value(), s.stream());
    return logs().add_metric("loss", loss);
  });
  std::vector<float> expected = params_of(state);
  const auto follow = [&](const TrainState& s) {
    const std::vector<float> now = params_of(s);
    for (std::size_t i = 0; i < now.size(); ++i) expected[i] = 0.75f * expected[i] + 0.25f * now[i];
  };
  Dataset data = rows();
  const auto result = loop(std::move(state), data, {{every(1), step}, {every(1), follow}}, {.stop = at(3)});
  EXPECT_EQ(to_host<float>(result.state.collection("average").flat(), result.state.stream()), expected);
  expect_error(ErrorCode::invalid_argument, {"collection 'learning_rate' consists of 1 parts", "specs() and options()"},
               [&] { (void)result.state.collection("learning_rate").flat({.index = 1, .count = 2}); });
}

// Saves the best of the due checkpoints by rank 0's values, the newest ones by two callbacks in one directory, and one
// in on_end.
TEST_F(ShardsOfRanks, CheckpointsAreSavedByAllRanks) {
  Dataset data = rows();
  double offset = 0;  // differs between ranks
  auto result = loop(make_state(), data,
                     {{every(1), make_step()},
                      {every(1),
                       [&](const Elapsed& elapsed) {
                         offset = world().rank();
                         return logs().add_metric("score", std::abs(static_cast<double>(elapsed.steps) - 5) + offset);
                       }},
                      {every(1), checkpoint(dir("best"), {.keep = 2, .monitor = "score", .mode = "min"})},
                      {every_end(4), checkpoint(dir("both"), {.keep = 3})},
                      {every_end(6) | last(), checkpoint(dir("both"), {.keep = 3, .asynchronous = true})}},
                     {.stop = at(9), .on_end = {checkpoint(dir("end"))}});
  meet();
  EXPECT_EQ(CheckpointStore(dir("best")).latest()->record.steps, 6);
  EXPECT_EQ(CheckpointStore(dir("best")).latest()->record.best, 0);  // rank 0's value
  EXPECT_EQ(CheckpointStore(dir("both")).all().size(), 3u);
  expect_saved(result.state, dir("both"), 9);
  expect_saved(result.state, dir("end"), 9);
  // Called by hand.
  Checkpoint save = checkpoint(dir("hand"));
  EXPECT_TRUE(save(result.elapsed, result.state));
  expect_saved(result.state, dir("hand"), 9);
  if (world().size() == 1) return;
  // A clone does not know the ranks, so it would lose the other ranks' shards.
  const State copy = result.state.clone();
  expect_error(ErrorCode::invalid_argument, {"of leaf 'opt_state/mu/", "expected a save group"},
               [&] { (void)checkpoint(dir("copy" + std::to_string(world().rank())))(result.elapsed, copy); });
}

// Each rank reads only its shard, so only one rank notices the damage; all ranks go back to the older checkpoint.
TEST_F(ShardsOfRanks, RestoreACheckpointThatEachRankCanRead) {
  constexpr std::int64_t kWidth = 1'300;  // a shard's file has several parts, each with its own checksum
  const auto make = [&](std::uint64_t seed) {
    return TrainState::create(nn::dense(kWidth), optim::adamw(1e-2),
                              {.inputs = {{"x", DType::f32, {1, kWidth}}},
                               .seed = seed,
                               .context = test_device(),
                               .partitioner = partitioner_});
  };
  const TrainState state = make(3);
  Checkpoint save = checkpoint(dir("model"), {.keep = 2});
  for (const std::int64_t step : {1, 2}) {
    from_host<std::int64_t>(state.at("step"), {step}, state.stream());
    save(Elapsed{.steps = step}, state);
  }
  meet();
  const int count = world().size();
  if (count > 1 && world().rank() == 0) {
    const std::string path =
        fmt::format("{}/checkpoint_0000000002/state-{:05}-of-{:05}.safetensors", dir("model"), count, count);
    std::string content = read_text(path);
    content.back() ^= 1;  // a byte of the last shard
    write_text(path, content);
  }
  meet();
  const std::int64_t expected = count > 1 ? 1 : 2;
  TrainState restored = make(4);
  const Restored found = restore(restored, dir("model"));
  EXPECT_EQ(found.steps, expected);
  EXPECT_EQ(found.skipped.size(), count > 1 ? 1u : 0u);
  if (count > 1 && world().rank() == 0) {
    EXPECT_NE(found.skipped.at(0).find("another rank cannot load it"), std::string::npos) << found.skipped.at(0);
  }
  EXPECT_EQ(to_host<std::int64_t>(restored.at("step"), restored.stream())[0], expected);
  EXPECT_EQ(params_of(restored), params_of(state));
  // The same when a run resumes.
  Dataset data = Dataset({{"x", HostArray(std::vector<float>(kWidth), {1, kWidth})}}).repeat().batch(1);
  const Resume resumed = resume(dir("model"));
  const auto result =
      loop(make(5), data, {{every(1), [](const Elapsed&) {}}}, {.stop = at(expected), .on_start = {resumed}});
  EXPECT_EQ(resumed.restored().steps, expected);
  EXPECT_EQ(params_of(result.state), params_of(state));
  if (count == 1) return;
  // If one rank can load none, all ranks end with an error.
  meet();
  if (world().rank() == 0) std::filesystem::remove_all(dir("model") + "/checkpoint_0000000001");
  meet();
  const ErrorCode code = world().rank() == count - 1 ? ErrorCode::corrupt_data : ErrorCode::communication;
  expect_error(code, {"checkpoint"}, [&] { (void)restore(restored, dir("model")); });
}

// A value that is not finite in only one rank's shard keeps all ranks from saving.
TEST_F(ShardsOfRanks, NonFiniteStateOnAnyRankReplacesNoCheckpoint) {
  Dataset data = rows();
  const int last = world().size() - 1;
  Checkpoint save = checkpoint(dir("model"));
  auto result = loop(make_state(), data,
                     {{every(1), make_step()},
                      {every(1),
                       [&](LoopState<TrainState, Batch>& loop) {
                         if (loop.elapsed.steps != 5 || world().rank() != last) return;
                         // The very last element, which is in the last shard.
                         const Tensor nu = loop.state.collection("opt_state/nu").leaves().back().value;
                         std::vector<float> values = to_host<float>(nu, loop.state.stream());
                         values.back() = std::numeric_limits<float>::infinity();
                         from_host(nu, values, loop.state.stream());
                       }},
                      {every(1), save}},
                     {.stop = at(6)});
  meet();
  EXPECT_EQ(load_checkpoint(dir("model")).record.steps, 5);
  const std::string of_rank = world().rank() == last ? "opt_state/nu/" : "a leaf of rank " + std::to_string(last);
  EXPECT_NE(save.report().find("step 6 is not saved: " + of_rank), std::string::npos) << save.report();
}

}  // namespace
}  // namespace giro::test
