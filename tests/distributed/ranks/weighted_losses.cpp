// Weighted losses divide by the weights of the whole batch, on any number of ranks and in any number of parts.

#include <giro/giro.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"

namespace giro::test {
namespace {

constexpr std::int64_t kSampleBatch = 24;

// The samples that count come in runs, so that some ranks and parts have only samples with the weight 0.
Dataset weighted_samples(int count) {
  std::vector<float> x, weights;
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < 3; ++k) x.push_back(std::sin(1.7f * static_cast<float>(3 * i + k)));
    weights.push_back(i % 24 < 5 ? 0.5f + static_cast<float>(i % 3) : 0);
  }
  return Dataset({{"x", HostArray(x, {count, 3})}, {"weight", weights}});
}

struct Weighted {
  std::vector<double> losses, squares, evaluations;
  std::vector<float> params;
};

Weighted train_weighted(const std::shared_ptr<const Partitioner>& partitioner, int parts, bool by_gradients = false) {
  // Ranks cannot divide a smaller last batch into parts. Without parts it leaves some ranks few samples or none.
  const int samples = parts > 1 ? 48 : 60;
  const nn::Layer model = nn::sequential(nn::dense(4, {.activation = Activation::tanh}), nn::dense(1));
  const Dataset data = weighted_samples(samples).batch(kSampleBatch).partition(partitioner).to(test_device());
  TrainState state = TrainState::create(
      model, optim::sgd(0.1),
      {.inputs = {{"x", DType::f32, {1, 3}}}, .seed = 3, .context = test_device(), .partitioner = partitioner});
  const auto squares = [model](const nn::Params& params, const Batch& rows) {
    return square(model(params, rows["x"]).reshape({rows.size()}) - 1);
  };
  const auto step = jit([=](TrainState& s, const Batch& batch) {
    // A loss may be any function of weighted means.
    const auto loss_of = [&](const nn::Params& params, const Batch& rows) {
      return nn::weighted_mean(squares(params, rows), rows["weight"], parts > 1 ? batch["weight"] : nn::Var());
    };
    const nn::Var before = nn::weighted_mean(squares(s.params(), batch), batch["weight"]);
    nn::Var loss;
    if (parts > 1) {
      loss = mean(
          s.value_and_grad(parts, [&](auto& params, int part) { return loss_of(params, batch.slice(part, parts)); }));
    } else if (by_gradients) {
      const auto [value, grads] = s.gradients([&](auto& params) { return square(loss_of(params, batch)); });
      for (const Leaf& leaf : s.collection("grads").leaves()) {
        copy(leaf.value, grads.at(leaf.path.substr(6)).value(), s.stream());
      }
      loss = value;
    } else {
      loss = s.value_and_grad([&](auto& params) { return square(loss_of(params, batch)); });
    }
    s.apply_gradients();
    return logs().add_metric("loss", loss).add_metric("square", square(before)).add_stateful_metric("before", before);
  });
  const auto result = loop(std::move(state), data, {{every(1), step}, {last(), check_replicas()}});
  Weighted trained{
      result.history.collect("loss")[0], result.history.collect("square")[0], result.history.collect("before")[0], {}};
  for (const Leaf& leaf : result.state.collection("params").leaves()) {
    for (const float value : to_host<float>(leaf.value, result.state.stream())) trained.params.push_back(value);
  }
  return trained;
}

void expect_same_training(const Weighted& found, const Weighted& wanted) {
  ASSERT_EQ(found.losses.size(), wanted.losses.size());
  for (std::size_t i = 0; i < found.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], wanted.losses[i], 1e-5) << "step " << i;
    EXPECT_NEAR(found.squares[i], wanted.squares[i], 1e-5) << "step " << i;
    EXPECT_NEAR(found.evaluations[i], wanted.evaluations[i], 1e-5) << "step " << i;
  }
  ASSERT_EQ(found.params.size(), wanted.params.size());
  for (std::size_t i = 0; i < found.params.size(); ++i) EXPECT_NEAR(found.params[i], wanted.params[i], 1e-5) << i;
}

TEST(WeightedLosses, TrainAsOneProcess) {
  for (const bool by_gradients : {false, true}) {
    SCOPED_TRACE(by_gradients ? "gradients" : "value_and_grad");
    const Weighted alone = train_weighted(nullptr, 1, by_gradients);
    expect_same_training(train_weighted(data_parallel(world(), test_device()), 1, by_gradients), alone);
    if (by_gradients) continue;
    expect_same_training(train_weighted(zero_data_parallel(world(), test_device()), 1), alone);
  }
}

TEST(WeightedLosses, TrainInPartsAsOneProcess) {
  const Weighted alone = train_weighted(nullptr, 2);
  expect_same_training(train_weighted(data_parallel(world(), test_device()), 2), alone);
}

// Outside of a step, too, ranks share the loss of a state that they train together.
TEST(WeightedLosses, ShareTheWeightsOutsideOfSteps) {
  const auto partitioner = data_parallel(world(), test_device());
  TrainState state =
      TrainState::create(nn::dense(1, {.use_bias = false, .kernel_init = nn::ones()}), optim::sgd(1),
                         {.inputs = {{"x", DType::f32, {1, 1}}}, .context = test_device(), .partitioner = partitioner});
  // Rank 0 alone has a row that counts.
  const nn::Var x = nn::arange(1, state.stream(), DType::i32) * 0 + 3.0;
  const nn::Var weight = x * (state.is_primary() ? 1.0 : 0.0);
  const nn::Var loss = state.value_and_grad([&](auto& params) {
    return nn::weighted_mean(state.model()(params, x.reshape({1, 1})).reshape({1}), weight);
  });
  EXPECT_EQ(to_host<float>(loss.value(), state.stream()).front(), 3);
  EXPECT_EQ(to_host<float>(state.at("grads/kernel"), state.stream()).front(), 3);
}

}  // namespace
}  // namespace giro::test
