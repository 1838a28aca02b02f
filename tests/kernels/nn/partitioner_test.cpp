#include <giro/kernels/nn/partitioner.h>

#include <gtest/gtest.h>

#include <algorithm>

#include <memory>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>

#include "tests/support/expect_error.h"
#include "tests/support/fake_partitioner.h"

namespace giro {
namespace {

using Calls = std::vector<std::string>;

struct Ranked {
  std::shared_ptr<test::FakePartitioner> partitioner = std::make_shared<test::FakePartitioner>(0, 2);
  TrainState state =
      TrainState::create(nn::sequential(nn::dense(4), nn::dense(3), nn::dense(2)), optim::sgd(0.1),
                         {.inputs = {{"x", DType::f32, {1, 5}}}, .context = Device::cpu(), .partitioner = partitioner});
};

nn::Var loss_of(const nn::Params& params, const char* layer) {
  return nn::add(nn::sum(params[std::string(layer) + "/kernel"]), nn::sum(params[std::string(layer) + "/bias"]));
}

// Leaves that the loss does not depend on are reported by finish(), when they are zero.
TEST(GradientReduction, IsNotifiedOnceEachGradientIsComplete) {
  Ranked ranked;
  (void)ranked.state.value_and_grad([](auto& params) { return loss_of(params, "dense1"); });
  Calls calls = ranked.partitioner->calls;
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls.back(), "finish");
  calls.pop_back();
  std::ranges::sort(calls);
  EXPECT_EQ(calls, (Calls{"grads/dense1/bias", "grads/dense1/kernel"}));
  EXPECT_EQ(to_host<float>(ranked.state.at("grads/dense0/bias"), ranked.state.stream()), std::vector<float>(4));
}

// With several parts only the last one sends, because the gradients accumulate until then.
TEST(GradientReduction, StartsWithTheLastPart) {
  Ranked ranked;
  (void)ranked.state.value_and_grad(
      2, [](auto& params, int part) { return loss_of(params, part == 0 ? "dense0" : "dense2"); });
  Calls calls = ranked.partitioner->calls;
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls.back(), "finish");
  EXPECT_EQ(to_host<float>(ranked.state.at("grads/dense0/bias"), ranked.state.stream()), std::vector<float>(4, 0.5f));
  EXPECT_EQ(to_host<float>(ranked.state.at("grads/dense2/bias"), ranked.state.stream()), std::vector<float>(2, 0.5f));
  EXPECT_EQ(to_host<float>(ranked.state.at("grads/dense1/bias"), ranked.state.stream()), std::vector<float>(3));
  test::expect_error(ErrorCode::invalid_argument, {"0 parts"}, [&] {
    (void)ranked.state.value_and_grad(0, [](auto& params, int) { return loss_of(params, "dense0"); });
  });
}

TEST(GradientReduction, GradientIsWeightedByItsPartOfTheBatch) {
  Ranked ranked;
  detail::StepScope step;
  step.weight = 1.5;
  (void)ranked.state.value_and_grad([](auto& params) { return loss_of(params, "dense1"); });
  EXPECT_EQ(to_host<float>(ranked.state.at("grads/dense1/bias"), ranked.state.stream()), std::vector<float>(3, 1.5f));
}

}  // namespace
}  // namespace giro
