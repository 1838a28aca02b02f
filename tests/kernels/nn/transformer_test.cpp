#include <giro/kernels/nn/transformer.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>

#include "tests/kernels/nn/leaves_of.h"
#include "tests/kernels/op_test.h"
#include "tests/support/expect_error.h"

namespace giro::nn {
namespace {

constexpr std::int64_t kIds = 11, kLength = 7, kWidth = 8;

class TransformerTest : public test::OpTest {
 protected:
  static Layer model(const AttentionLayerOptions& attention, bool learned_positions = true) {
    const Layer embed = embedding(kIds, kWidth);
    const Layer positions = position_embedding(kLength, {.cache = attention.cache > 0});
    const Layer block = transformer_block({.attention = attention, .hidden = 12});
    return learned_positions ? sequential(embed, positions, block, block, dense(kIds))
                             : sequential(embed, block, block, dense(kIds));
  }
  TrainState create(const Layer& layer, std::int64_t rows, std::int64_t steps) {
    return TrainState::create(layer, optim::sgd(0.1),
                              {.inputs = {{"ids", DType::i32, {rows, steps}}}, .seed = 3, .context = device()});
  }
  Var ids(const TrainState& state, std::int64_t rows, std::int64_t steps, std::int64_t first = 0) {
    std::vector<std::int32_t> values;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t t = first; t < first + steps; ++t) {
        values.push_back(static_cast<std::int32_t>((3 * r + 5 * t + t * t) % kIds));
      }
    }
    return constant(HostArray(values, {rows, steps}), state.stream());
  }
  std::vector<float> floats(const TrainState& state, const Var& x) { return to_host<float>(x.value(), state.stream()); }

  // A model with a cache gives the same outputs for tokens one by one, or several at a time, as the model without one
  // for all at once; and again after a reset (0).
  void expect_decodes(AttentionLayerOptions attention, bool learned_positions) {
    constexpr std::int64_t kRows = 2;
    attention.is_causal = true;
    const Layer whole = model(attention, learned_positions);
    attention.cache = kLength;
    const Layer stepwise = model(attention, learned_positions);
    TrainState state = create(whole, kRows, kLength), generator = create(stepwise, kRows, 1);
    const std::vector<float> wanted = floats(state, whole(state.params(), ids(state, kRows, kLength)));
    std::int64_t at = 0;
    for (const std::int64_t steps : {3, 1, 1, 2, 0, 4, 3}) {
      if (steps == 0) {
        generator.reset("cache");
        at = 0;
        continue;
      }
      const Var y = stepwise(generator.params(Mode::decode), ids(generator, kRows, steps, at));
      const std::vector<float> found = floats(generator, y);
      for (std::int64_t r = 0; r < kRows; ++r) {
        for (std::int64_t i = 0; i < steps * kIds; ++i) {
          EXPECT_NEAR(found[static_cast<std::size_t>(r * steps * kIds + i)],
                      wanted[static_cast<std::size_t>((r * kLength + at) * kIds + i)], 4e-6);
        }
      }
      at += steps;
    }
    const Var after_the_end = stepwise(generator.params(Mode::decode), ids(generator, kRows, 1));
    const std::string layer = learned_positions ? "position_embedding" : "attention";
    test::expect_error(ErrorCode::invalid_argument,
                       {layer + ": the cache is full (state.reset(\"cache\") starts over): token " +
                            std::to_string(kLength) + " at position 0",
                        "below " + std::to_string(kLength)},
                       [&] { generator.stream().synchronize(); });
    const std::vector<float> beyond = floats(generator, after_the_end);
    for (const float value : beyond) EXPECT_TRUE(std::isnan(value));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, TransformerTest, test::kDevices, test::device_name);

TEST_P(TransformerTest, DecodesTokenByToken) {
  expect_decodes({.heads = 2}, true);
  expect_decodes({.heads = 4, .kv_heads = 2, .rope_base = 10'000, .use_bias = false}, false);
}

TEST_P(TransformerTest, EarlierTokensDoNotSeeLaterTokens) {
  const Layer layer = model({.heads = 2, .is_causal = true});
  TrainState state = create(layer, 1, kLength);
  const Var all = ids(state, 1, kLength);
  const std::vector<float> whole = floats(state, layer(state.params(), all));
  const Var first = slice(all, {.axis = 1, .begin = 0, .end = 3});
  const std::vector<float> part = floats(state, layer(state.params(), first));
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_NEAR(part[i], whole[i], 4e-6);
}

// After both vectors are rotated by their positions, their product depends only on the distance between the positions.
TEST_P(TransformerTest, RotaryProductsDependOnTheDistance) {
  const test::Array given = random_.uniform({1, 1, 1, 6}, -1, 1);
  const Var x =
      constant(HostArray(std::vector<float>(given.values.begin(), given.values.end()), given.shape), stream());
  const auto turned = [&](std::int32_t position) {
    return rotary_embedding(x, constant(HostArray(std::vector<std::int32_t>{position}, {1}), stream()));
  };
  const auto product = [&](std::int32_t a, std::int32_t b) {
    return to_host<float>(sum(turned(a) * turned(b)).value(), stream())[0];
  };
  EXPECT_NEAR(product(2, 5), product(11, 14), 2e-6);
  EXPECT_GT(std::abs(product(2, 5) - product(2, 6)), 1e-3);
}

TEST_P(TransformerTest, GradientsReachEveryLeaf) {
  const Layer layer = model({.heads = 4, .kv_heads = 2, .is_causal = true, .dropout = 0.2, .rope_base = 100});
  TrainState state = create(layer, 2, 5);
  const Var x = ids(state, 2, 5);
  (void)state.value_and_grad(
      [&](const Params& params) { return mean(softmax_cross_entropy(layer(params, x), ids(state, 2, 5, 1))); });
  for (const Leaf& leaf : state.flatten("grads")) {
    double largest = 0;
    for (const float g : to_host<float>(leaf.value, state.stream())) largest = std::max(largest, std::abs(double{g}));
    EXPECT_GT(largest, 0) << leaf.path;
    EXPECT_LT(largest, 100) << leaf.path;
  }
}

TEST(Transformer, Names) {
  std::vector<std::string> names;
  for (const DeclaredLeaf& leaf : test::leaves_of(transformer_block({.attention = {.heads = 2}}), {1, 3, 4})) {
    names.push_back(leaf.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"layer_norm0/scale", "layer_norm0/bias", "attention0/qkv/kernel",
                                             "attention0/qkv/bias", "attention0/out/kernel", "attention0/out/bias",
                                             "layer_norm1/scale", "layer_norm1/bias", "dense0/kernel", "dense0/bias",
                                             "dense1/kernel", "dense1/bias"}));
}

TEST(Transformer, RejectsBadInput) {
  const auto leaves = [](const Layer& layer, const Shape& input) { test::leaves_of(layer, input); };
  using test::expect_error;
  expect_error(ErrorCode::invalid_argument, {"layer 'attention0'", "3 heads", "8 features"}, [&] {
    leaves(sequential(multi_head_attention({.heads = 3})), {1, 2, 8});
  });
  expect_error(ErrorCode::invalid_argument, {"4 query heads", "3 key and value heads"}, [&] {
    leaves(multi_head_attention({.heads = 4, .kv_heads = 3}), {1, 2, 8});
  });
  expect_error(ErrorCode::shape_mismatch, {"attention", "(B, T, C)"}, [&] {
    leaves(multi_head_attention({.heads = 2}), {2, 8});
  });
  expect_error(ErrorCode::invalid_argument, {"a sequence of 9", "7 positions"}, [&] {
    leaves(position_embedding(7), {1, 9, 8});
  });
  expect_error(ErrorCode::shape_mismatch, {"rotary", "an even D"}, [&] {
    leaves(multi_head_attention({.heads = 2, .head_features = 3, .rope_base = 10}), {1, 2, 6});
  });
}

}  // namespace
}  // namespace giro::nn
