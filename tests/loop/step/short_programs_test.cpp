// Training programs, each as short as a user would write it.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/normalization.h>
#include <giro/kernels/nn/recurrent.h>
#include <giro/kernels/nn/transformer.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/step/step.h>

#include "tests/kernels/op_test.h"
#include "tests/support/training.h"

namespace giro {
namespace {

class ShortProgramsTest : public test::OpTest {
 protected:
  using Floats = std::vector<float>;

  // Values that look random and are the same in each run.
  Floats noise(std::int64_t count, double scale = 1) {
    Floats values;
    for (const double value : random_.uniform({count}, -scale, scale).values)
      values.push_back(static_cast<float>(value));
    return values;
  }
  template <class T>
  void add(const std::string& name, const Shape& shape, const std::vector<T>& values) {
    data_.emplace_back(name, HostArray(values, shape));
  }
  std::vector<LeafSpec> spec() const {
    std::vector<LeafSpec> spec;
    for (const auto& [name, array] : data_) spec.push_back({name, array.tensor().dtype(), array.tensor().shape()});
    return spec;
  }
  TrainStateOptions options() const { return {.inputs = spec(), .seed = 1, .context = device()}; }
  // The loss before and after some steps on the one batch.
  template <class State, class Step>
  std::pair<double, double> train(State& state, const Step& step, int steps) {
    Batch::Features features;
    for (const auto& [name, array] : data_) features.emplace_back(name, array.tensor());
    const Batch batch(features);
    const double first = step(state, batch).entry_value("loss");
    for (int i = 2; i < steps; ++i) step(state, batch);
    return {first, step(state, batch).entry_value("loss")};
  }
  Floats values(const State& state, const std::string& path) { return to_host<float>(state.at(path), state.stream()); }

 private:
  test::Random random_;
  std::vector<std::pair<std::string, HostArray>> data_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ShortProgramsTest, test::kDevices, test::device_name);

TEST_P(ShortProgramsTest, HuberRegression) {
  add("x", {16, 3}, noise(48));
  add("y", {16, 1}, noise(16));
  const nn::Layer model = nn::sequential(nn::dense(8), nn::layer_norm(), nn::tanh(), nn::dense(1));
  auto state = TrainState::create(model, optim::adamw(0.02), options());
  const auto step = jit([&](TrainState& s, const Batch& batch) {
    const auto loss =
        s.value_and_grad([&](auto& params) { return mean(huber(model(params, batch["x"]), batch["y"], 0.5)); });
    s.apply_gradients();
    return logs().add_metric("loss", loss).add_metric("norm", s.gradient_norm());
  });
  const auto [first, last] = train(state, step, 60);
  EXPECT_LT(last, 0.3 * first);
}

// The input and output embeddings are one table.
TEST_P(ShortProgramsTest, LanguageModelWithTiedWeights) {
  add("ids", {2, 6}, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1});
  add("next", {2, 6}, std::vector<std::int32_t>{2, 3, 4, 5, 6, 0, 5, 4, 3, 2, 1, 0});
  const auto model = [](nn::Scope s, const Batch& batch) {
    const nn::Var table = s.param("table", {7, 16}, nn::normal(0.3));
    nn::Var x = nn::position_embedding(6)(s, embedding(batch["ids"], table));
    for (int i = 0; i < 2; ++i) {
      x = nn::transformer_block({.attention = {.heads = 2, .is_causal = true}, .hidden = 16})(s, x);
    }
    return matmul(nn::layer_norm()(s, x), table, {.transpose_b = true});
  };
  auto state = TrainState::create(model, optim::adamw(0.02), options());
  const auto step = jit([&](TrainState& s, const Batch& batch) {
    const auto loss = s.value_and_grad(
        [&](auto& params) { return mean(softmax_cross_entropy(model(params, batch), batch["next"])); });
    s.apply_gradients();
    return logs().add_metric("loss", loss).add_metric("perplexity", exp(loss));
  });
  const auto [first, last] = train(state, step, 20);
  EXPECT_NEAR(first, std::log(7), 1);
  EXPECT_LT(last, 0.5 * first);
}

TEST_P(ShortProgramsTest, VariationalAutoencoder) {
  add("x", {8, 6}, noise(48));
  const auto model = [](nn::Scope s, const nn::Var& x) {
    const nn::Var h = nn::dense(12, {.activation = Activation::tanh})(s, x);
    const nn::Var mu = nn::dense(2)(s, h), log_variance = nn::dense(2)(s, h);
    const nn::Var z = mu + exp(0.5 * log_variance) * random_normal(s.key("z"), mu.shape());
    const nn::Var y = nn::dense(6)(s, nn::dense(12, {.activation = Activation::tanh})(s, z));
    const nn::Var divergence = -0.5 * sum(1 + log_variance - square(mu) - exp(log_variance), {-1});
    return mean(sum(squared_error(y, x), {-1}) + 0.01 * divergence);
  };
  auto state = TrainState::create(model, optim::adamw(0.02), options());
  const auto step = jit([&](TrainState& s, const Batch& batch) {
    const auto loss = s.value_and_grad([&](auto& params) { return model(params, batch["x"]); });
    s.apply_gradients();
    return logs().add_metric("loss", loss);
  });
  const auto [first, last] = train(state, step, 150);
  EXPECT_LT(last, 0.6 * first);
}

// Two states in one step: the generator's gradient passes through the discriminator.
TEST_P(ShortProgramsTest, GenerativeAdversarialNetwork) {
  struct Gan : TrainState {
    Gan(TrainState generator, TrainState discriminator)
        : TrainState(std::move(generator)), discriminator(std::move(discriminator)) {
      attach("discriminator", this->discriminator);
    }
    TrainState discriminator;
  };
  add("x", {8, 2}, noise(16, 0.1));
  const nn::Layer generator("generator", [](nn::Scope& s, const nn::Var& like) {
    return nn::dense(2)(s, random_normal(s.key("z"), {like.shape()[0], 3}));
  });
  const nn::Layer discriminator = nn::sequential(nn::dense(8), nn::gelu(), nn::dense(1));
  auto first = TrainState::create(generator, optim::adam(0.02), options());
  TrainStateOptions beside = options();
  beside.context = first.context();
  auto second = TrainState::create(discriminator, optim::adam(0.02), beside);
  Gan state(std::move(first), std::move(second));
  const auto step = jit([&](Gan& s, const Batch& batch) {
    const auto real = [](const nn::Var& logits, double is_real) {
      return mean(binary_cross_entropy_with_logits(logits, is_real));
    };
    const auto d_loss = s.discriminator.value_and_grad([&](auto& params) {
      const nn::Var made = stop_gradient(generator(s.params(), batch["x"]));
      return real(discriminator(params, batch["x"]), 1) + real(discriminator(params, made), 0);
    });
    s.discriminator.apply_gradients();
    const auto loss = s.value_and_grad(
        [&](auto& params) { return real(discriminator(s.discriminator.params(), generator(params, batch["x"])), 1); });
    s.apply_gradients();
    return logs().add_metric("loss", loss).add_metric("discriminator", d_loss);
  });
  const auto before = values(state, "params/dense0/kernel");
  const auto [begin, end] = train(state, step, 20);
  EXPECT_TRUE(std::isfinite(begin) && std::isfinite(end));
  EXPECT_NE(values(state, "params/dense0/kernel"), before);
  EXPECT_TRUE(state.contains("discriminator/params/dense1/kernel"));
}

// Two views of each row attract each other, and all other rows repel (SimCLR's loss).
TEST_P(ShortProgramsTest, ContrastiveLoss) {
  add("x", {6, 4}, noise(24));
  const auto model = [](nn::Scope s, const nn::Var& x) {
    const nn::Var h = nn::dense(3)(s, nn::dense(8, {.activation = Activation::relu})(s, x));
    return h * rsqrt(sum(square(h), {-1}) + 1e-6);
  };
  auto state = TrainState::create(model, optim::adamw(0.02), options());
  const auto step = jit(test::training([&](const nn::Params& params, const Batch& batch) {
    const nn::Var x = batch["x"], a = model(params, x), b = model(params, 0.9 * x + 0.05);
    const nn::Var similarity = matmul(a, b, {.transpose_b = true}) / 0.2;
    return mean(softmax_cross_entropy(similarity, nn::arange(x.shape()[0], x.stream())));
  }));
  const auto [first, last] = train(state, step, 80);
  EXPECT_LT(last, 0.5 * first);
}

TEST_P(ShortProgramsTest, PolicyGradient) {
  add("state", {8, 3}, noise(24));
  add("action", {8, 1}, std::vector<std::int32_t>{0, 1, 0, 1, 1, 0, 0, 1});
  add("return", {8}, Floats{1, 0, 1, 0.5f, 0, 1, 0.5f, 1});
  const nn::Layer policy = nn::sequential(nn::dense(8), nn::tanh(), nn::dense(2));
  auto state = TrainState::create(policy, optim::adam(0.05), options());
  const auto step = jit(test::training([&](const nn::Params& params, const Batch& batch) {
    const nn::Var log_probs = log_softmax(policy(params, batch["state"]));
    const nn::Var chosen = take_along_axis(log_probs, batch["action"], 1).reshape({8});
    const nn::Var advantage = batch["return"] - mean(batch["return"]);
    return -mean(chosen * advantage) + 0.01 * mean(sum(exp(log_probs) * log_probs, {-1}));
  }));
  const auto [first, last] = train(state, step, 60);
  EXPECT_LT(last, first - 0.1);
}

// A frozen backbone, a head with its own learning rate, and averaged weights for evaluation.
TEST_P(ShortProgramsTest, FrozenBackboneAndAveragedWeights) {
  add("x", {8, 4}, noise(32));
  add("y", {8, 2}, noise(16));
  const auto model = [](nn::Scope s, const nn::Var& x) {
    const nn::Var h = s.call("backbone", nn::sequential(nn::dense(6), nn::tanh()), x);
    return s.call("head", nn::sequential(nn::dense(2)), h);
  };
  auto state = TrainState::create(
      model, optim::ema(0.9, optim::by_path({{"backbone0/**", optim::frozen()}, {"**", optim::adamw(0.05)}})),
      options());
  const auto backbone = values(state, "params/backbone0/sequential0/dense0/kernel");
  const auto step = jit(test::training([&](const nn::Params& params, const Batch& batch) {
    return mean(squared_error(model(params, batch["x"]), batch["y"]));
  }));
  const auto [first, last] = train(state, step, 30);
  EXPECT_LT(last, 0.9 * first);
  EXPECT_EQ(values(state, "params/backbone0/sequential0/dense0/kernel"), backbone);
  EXPECT_NE(values(state, "ema/head0/sequential0/dense0/kernel"),
            values(state, "params/head0/sequential0/dense0/kernel"));
}

TEST_P(ShortProgramsTest, CnnWithBatchNormAndAugmentation) {
  add("image", {8, 6, 6, 3}, noise(8 * 108));
  add("label", {8}, std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 2, 3});
  const nn::ConvOptions plain{.use_bias = false};
  const nn::Layer network = nn::sequential(nn::conv(8, {3, 3}, plain), nn::batch_norm(), nn::relu(),
                                           nn::residual(nn::sequential(nn::conv(8, {3, 3}, plain), nn::batch_norm())),
                                           nn::relu(), nn::lambda([](const nn::Var& x) {
                                             return mean(x, nn::Axes{1, 2}.dropped());
                                           }),
                                           nn::dense(4));
  const auto model = [&](nn::Scope s, const nn::Var& image) {
    if (!s.training()) return network(s, image);
    const nn::Var is_flipped = random_bernoulli(s.key("flip"), 0.5, {image.shape()[0], 1, 1, 1});
    return network(s, where(is_flipped, flip(image, {2}), image));
  };
  auto state = TrainState::create(model, optim::sgd(0.1, {.momentum = 0.9}), options());
  const auto step = jit(test::classifying(model));
  const auto [first, last] = train(state, step, 40);
  EXPECT_LT(last, 0.3 * first);
  EXPECT_NE(values(state, "batch_stats/sequential0/batch_norm0/mean"), Floats(8));
}

TEST_P(ShortProgramsTest, LstmWithCarriedState) {
  add("x", {2, 5, 1}, Floats{1, 0, 0, 1, 0, 0, 1, 0, 0, 0});
  add("y", {2, 5, 1}, Floats{1, 1, 1, 2, 2, 0, 1, 1, 1, 1});
  const nn::Layer model = nn::sequential(nn::lstm(8), nn::dense(1));
  auto state = TrainState::create(model, optim::adamw(0.03), options());
  const auto step = jit(test::training([&](const nn::Params& params, const Batch& batch) {
    return mean(squared_error(model(params, batch["x"]), batch["y"]));
  }));
  const auto [first, last] = train(state, step, 100);
  EXPECT_LT(last, 0.1 * first);
}

}  // namespace
}  // namespace giro
