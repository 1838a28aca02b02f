// The ops that layers take in a recorded step. A step gives the same bits however it runs.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/normalization.h>
#include <giro/kernels/nn/recurrent.h>
#include <giro/kernels/nn/remat.h>
#include <giro/kernels/nn/transformer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/files/load_into.h>
#include <giro/runtime/files/save_load.h>

#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

class LayerProgramsTest : public test::OpTest {
 protected:
  TrainState state_of(const nn::Layer& model, const Shape& input, std::uint64_t seed = 0,
                      const optim::Optimizer& optimizer = optim::sgd(0.1)) {
    return TrainState::create(model, optimizer,
                              {.inputs = {{"x", DType::f32, input}}, .seed = seed, .context = device()});
  }
  Batch batch_of(const TrainState& state, const Shape& input) {
    const test::Array x = random_.uniform(input, -1, 1);
    rows_.push_back(
        nn::constant(HostArray(std::vector<float>(x.values.begin(), x.values.end()), input), state.stream()));
    return Batch({{"x", rows_.back().value()}}, state.stream());
  }
  static Logs train_step(const nn::Layer& model, TrainState& s, const Batch& b) {
    const nn::Var loss =
        s.value_and_grad([&](const nn::Params& params) { return mean(square(model(params, b["x"]))); });
    s.apply_gradients();
    return logs().add_metric("loss", loss);
  }
  // A loss and its gradients, without an update.
  static auto gradient_step(const nn::Layer& model) {
    return jit([model](TrainState& s, const Batch& b) {
      const nn::Var loss =
          s.value_and_grad([&](const nn::Params& params) { return mean(square(model(params, b["x"]))); });
      return logs().add_metric("loss", loss);
    });
  }
  // The number of nodes of a recorded step with that model, and their names.
  std::pair<std::size_t, std::string> nodes_of(const nn::Layer& model, const Shape& input) {
    TrainState state = state_of(model, input);
    const Batch batch = batch_of(state, input);
    const Program program = gradient_step(model).program(state, batch);
    return {program.nodes().size(), program.text()};
  }
  // The nodes that a layer adds to a model that is otherwise the same.
  void expect_nodes(const nn::Layer& with, const nn::Layer& without, const Shape& input, std::size_t at_most) {
    const auto [with_it, text] = nodes_of(with, input);
    const auto [without_it, other] = nodes_of(without, input);
    EXPECT_LE(with_it, without_it + at_most) << text << "without:\n" << other;
  }

  test::Random random_;

 private:
  std::vector<nn::Var> rows_;
};
INSTANTIATE_TEST_SUITE_P(Devices, LayerProgramsTest, test::kDevices, test::device_name);

TEST_P(LayerProgramsTest, BatchNormAndReluTakeTwoKernelsPerPass) {
  const test::ArenaSetting arena("1");
  const auto model = [](bool with) {
    const nn::ConvOptions plain{.use_bias = false};
    return with ? nn::sequential(nn::conv(8, {3, 3}, plain), nn::batch_norm(), nn::relu(), nn::conv(4, {3, 3}, plain))
                : nn::sequential(nn::conv(8, {3, 3}, plain), nn::conv(4, {3, 3}, plain));
  };
  expect_nodes(model(true), model(false), {4, 6, 6, 3}, 4);
}

TEST_P(LayerProgramsTest, LayerNormTakesOneKernelPerPass) {
  const test::ArenaSetting arena("1");
  const auto model = [](bool with) {
    return with ? nn::sequential(nn::dense(64), nn::layer_norm(), nn::dense(64))
                : nn::sequential(nn::dense(64), nn::dense(64));
  };
  expect_nodes(model(true), model(false), {32, 64}, 3);
}

TEST_P(LayerProgramsTest, TransformerBlockTakes22Kernels) {
  const test::ArenaSetting arena("1");
  const auto model = [](int blocks) {
    const nn::Layer block =
        nn::transformer_block({.attention = {.heads = 2, .is_causal = true, .dropout = 0.1}, .dropout = 0.1});
    std::vector<nn::Layer> layers(static_cast<std::size_t>(blocks), block);
    layers.insert(layers.begin(), nn::dense(16));
    return nn::sequential(layers);
  };
  expect_nodes(model(2), model(1), {2, 5, 16}, 22);
}

TEST_P(LayerProgramsTest, LstmTakesTwoKernelsPerStepAndPass) {
  const test::ArenaSetting arena("1");
  const auto [short_one, text] = nodes_of(nn::lstm(16), {4, 16, 8});
  const auto [long_one, other] = nodes_of(nn::lstm(16), {4, 32, 8});
  EXPECT_LE(long_one - short_one, 16u * 4) << text;
}

// Dropout, BatchNorm, LayerNorm and a recurrent layer in a step that is recorded, without rules, eager, or under remat.
TEST_P(LayerProgramsTest, GivesTheSameBitsInEveryMode) {
  const auto train = [&](bool recorded, bool under_remat, const char* rules) {
    const test::RewriteSetting setting(rules);
    const auto part = [&](nn::Layer layer) { return under_remat ? nn::remat(std::move(layer)) : layer; };
    const nn::Layer model = nn::sequential(
        part(nn::sequential(nn::lstm(6), nn::dropout(0.3), nn::layer_norm())),
        part(nn::sequential(nn::dense(5), nn::batch_norm(), nn::relu(), nn::dropout(0.5))), nn::dense(2));
    TrainState state = state_of(model, {4, 3, 5}, 7);
    random_ = test::Random();
    const Batch batch = batch_of(state, {4, 3, 5});
    const auto body = [&](TrainState& s, const Batch& b) { return train_step(model, s, b); };
    const auto step = recorded ? jit(body) : eager(body);
    for (int i = 0; i < 3; ++i) step(state, batch);
    return test::saved_bytes(state);
  };
  // add_in_place adds in another order.
  const auto wanted = train(true, false, "-add_in_place");
  EXPECT_EQ(wanted.count("batch_stats"), 1u);
  EXPECT_TRUE(train(true, true, "-add_in_place") == wanted);
  EXPECT_TRUE(train(true, false, "0") == wanted);
  EXPECT_TRUE(train(false, false, "0") == wanted);
}

TEST_P(LayerProgramsTest, GivesTheSameBitsResumedAfterAnyStep) {
  constexpr int kSteps = 7;
  const Shape input{4, 3, 5};
  const nn::Layer model =
      nn::sequential(nn::lstm(6, {.carry = true}), nn::dropout(0.3), nn::gru(5, {.carry = true}), nn::layer_norm(),
                     nn::dense(5), nn::batch_norm(), nn::relu(), nn::dropout(0.5), nn::dense(2));
  const auto create = [&] { return state_of(model, input, 7, optim::ema(0.9, optim::adamw(0.01))); };
  const auto step = jit([&](TrainState& s, const Batch& b) { return train_step(model, s, b); });
  TrainState whole = create();
  std::vector<Batch> batches;
  for (int i = 0; i < kSteps; ++i) batches.push_back(batch_of(whole, input));
  const test::TemporaryDirectory dir;
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    save(dir / std::to_string(i), whole);
    losses.push_back(step(whole, batches[static_cast<std::size_t>(i)]).entry_value("loss"));
  }
  const auto wanted = test::saved_bytes(whole);
  for (const char* name : {"batch_stats", "carry", "ema"}) EXPECT_EQ(wanted.count(name), 1u) << name;
  for (int begin = 1; begin < kSteps; ++begin) {
    SCOPED_TRACE(begin);
    TrainState resumed = create();
    load_into(resumed, load(dir / std::to_string(begin)).tensors);
    for (auto i = static_cast<std::size_t>(begin); i < batches.size(); ++i) {
      EXPECT_EQ(step(resumed, batches[i]).entry_value("loss"), losses[i]);
    }
    EXPECT_TRUE(test::saved_bytes(resumed) == wanted);
  }
}

}  // namespace
}  // namespace giro
