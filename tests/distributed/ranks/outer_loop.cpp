// jaxloop's outer loop on several ranks.

#include <giro/giro.h>
#include <giro/jaxloop.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"
#include "tests/support/temporary_directory.h"

namespace giro::test {
namespace {

class FitStep : public jaxloop::Step {
 public:
  FitStep(const std::shared_ptr<const Partitioner>& partitioner, bool train)
      : Step(giro::test::model(), {.train = train,
                                   .optimizer = optim::adam(1e-2),
                                   .seed = 3,
                                   .device = test_device(),
                                   .partitioner = partitioner}) {}
  Logs run(TrainState& state, const Batch& batch) override {
    const auto loss_of = [&](const nn::Params& params) {
      return mean(softmax_cross_entropy(model()(params, batch["x"]), batch["label"]));
    };
    const nn::Var loss = train() ? state.value_and_grad(loss_of) : loss_of(state.params());
    if (train()) state.apply_gradients();
    return logs().add_metric("loss", loss);
  }
};

// The same bits as a plain loop of as many steps, however often it is restarted from its checkpoints.
TEST(OuterLoopOfRanks, MatchesAPlainLoop) {
  for (const bool sharded : {false, true}) {
    const auto partitioner =
        sharded ? zero_data_parallel(world(), test_device()) : data_parallel(world(), test_device());
    const TemporaryDirectory own;
    const std::string dir = partitioner->broadcast(own.path());
    const auto meet = [&] {
      double nothing = 0;
      partitioner->all_reduce_max({&nothing, 1});
    };
    const Dataset data = random_rows().shuffle(5).repeat().batch(48).partition(partitioner);
    const Dataset eval_data = random_rows().batch(36).partition(partitioner);
    FitStep step(partitioner, true), eval_step(partitioner, false);
    const auto initial = [&] { return step.initialize_model({{"x", {1, kFeatures}}}); };
    const auto params_of = [](const TrainState& state) {
      return to_host<float>(state.collection("params").flat(), state.stream());
    };
    const auto plain = loop(initial(), data, {{every(1), step.recorded()}}, {.stop = at(25)});

    for (const std::int64_t steps : {7, 12, 25}) {
      jaxloop::TrainLoop train_loop(step, {.end_actions = {jaxloop::checkpoint_action(dir)}});
      jaxloop::EvalLoop eval_loop(eval_step);
      const auto [state, outputs] = jaxloop::OuterLoop(
          {.train_loop = &train_loop, .eval_loops = {&eval_loop}, .checkpoint_spec = jaxloop::CheckpointSpec{dir}})(
          initial(), {.train_dataset = data,
                      .train_total_steps = steps,
                      .train_loop_steps = 6,
                      .eval_specs = {{.dataset = eval_data}}});
      EXPECT_EQ(jaxloop::step_of(state), steps);
      if (steps == 25) {
        EXPECT_EQ(params_of(state), params_of(plain.state)) << (sharded ? "sharded" : "whole");
      }
      meet();  // all ranks read what rank 0 saves
    }
  }
}

}  // namespace
}  // namespace giro::test
