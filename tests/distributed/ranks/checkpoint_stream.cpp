// A stream of checkpoints on several ranks.

#include <giro/flip.h>
#include <giro/giro.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"
#include "tests/support/temporary_directory.h"

namespace giro::test {
namespace {

nn::Var loss_of(const nn::Var& logits, const Batch& batch) {
  return mean(softmax_cross_entropy(logits, batch["label"]));
}

// The same bits as a plain loop of as many steps, however often it is restarted from its checkpoints. The norms and
// metrics are the same with complete states and with shards.
TEST(CheckpointStreamOfRanks, MatchesAPlainLoop) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> shown(std::tmpfile(), std::fclose);
  std::vector<std::vector<double>> metrics;
  for (const bool sharded : {false, true}) {
    const auto partitioner =
        sharded ? zero_data_parallel(world(), test_device()) : data_parallel(world(), test_device());
    const TemporaryDirectory own;
    const std::string dir = partitioner->broadcast(own.path());
    const Dataset data = random_rows().shuffle(5).repeat().batch(48).partition(partitioner);
    const Dataset eval_data = random_rows().batch(36).partition(partitioner);
    const optim::Optimizer adam = optim::adam(1e-2);
    const auto params_of = [](const TrainState& state) {
      return to_host<float>(state.collection("params").flat(), state.stream());
    };
    const auto step = jit([](TrainState& state, const Batch& batch) {
      const nn::Var loss = state.value_and_grad(
          [&](const nn::Params& params) { return loss_of(state.model()(params, batch["x"]), batch); });
      state.apply_gradients();
      return logs().add_metric("loss", loss);
    });
    const auto plain = loop(
        TrainState::create(model(), adam,
                           {.inputs = data.spec(), .seed = 3, .context = test_device(), .partitioner = partitioner}),
        data, {{every(1), step}}, {.stop = at(25)});

    metrics.emplace_back();
    for (const std::int64_t steps : {7, 12, 25}) {
      flip::TrainLoop train_loop({.task = {.model = model(), .optimizer = adam, .loss = loss_of, .data = data},
                                  .n_steps_per_checkpoint = 6,
                                  .n_steps = steps,
                                  .init = flip::CheckpointFileReader(dir),
                                  .seed = 3,
                                  .device = test_device(),
                                  .partitioner = partitioner});
      auto process = flip::serial(flip::EvalLoop({.task = {.metrics = {{"loss", loss_of}}, .data = eval_data}}),
                                  flip::SummaryLogger(shown.get()), flip::SummaryWriter(dir + "/tensorboard"),
                                  flip::CheckpointFileWriter(dir), flip::LowestCheckpointFileWriter(dir, "loss"));
      for (const auto& checkpoint : train_loop) {
        const flip::Summary summary = process(checkpoint);
        for (const auto& metric : summary.metrics) {
          if (metric.label != "seconds_per_step") metrics.back().push_back(metric.value);
        }
        if (checkpoint.step < 25) continue;
        EXPECT_EQ(checkpoint.loss, plain.history.back().logs.entry_value("loss"));
        EXPECT_EQ(params_of(checkpoint.state()), params_of(plain.state)) << (sharded ? "sharded" : "whole");
      }
      EXPECT_EQ(train_loop.step(), steps);
      double nothing = 0;
      partitioner->all_reduce_max({&nothing, 1});  // all ranks read what rank 0 saves
    }
  }
  EXPECT_EQ(std::ftell(shown.get()) > 0, world().is_primary());
  ASSERT_EQ(metrics[0].size(), metrics[1].size());
  for (std::size_t i = 0; i < metrics[0].size(); ++i) {
    EXPECT_NEAR(metrics[0][i], metrics[1][i], 1e-4 * std::abs(metrics[0][i])) << i;
  }
}

}  // namespace
}  // namespace giro::test
