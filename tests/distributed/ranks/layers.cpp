// Layers that use more of the batch than single rows, or draw random numbers for rows, train on ranks as on one.

#include <giro/giro.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"

namespace giro::test {
namespace {

// The logits, and the numbers that a dropout layer multiplied its input by.
template <class Network>
auto with_mask(const Network& network) {
  return [network](nn::Scope s, const nn::Var& x) {
    const nn::Var h = network(s, x);
    const nn::Var mask = nn::dropout(0.4)(s, nn::stop_gradient(0 * h + 1));
    return std::pair{nn::dense(kClasses)(s, h * mask), mask};
  };
}

// The last batch has 24 of 36 rows, which leave the last of three or four ranks without any.
Dataset unevenly() { return random_rows().shuffle(5).batch(36); }

struct Trained {
  std::vector<double> losses;
  std::vector<float> leaves;  // params and batch_stats
  std::vector<HostArray> masks;
};

template <class Model>
Trained train(const Model& model, const Dataset& whole, const std::shared_ptr<const Partitioner>& partitioner) {
  const Dataset data = whole.partition(partitioner).to(test_device());
  const auto step = jit([&](TrainState& state, const Batch& rows) {
    const auto [loss, mask] = state.value_and_grad([&](auto& params) {
      auto [logits, of_dropout] = model(params, rows["x"]);
      return std::pair{mean(softmax_cross_entropy(logits, rows["label"])), of_dropout};
    });
    state.apply_gradients();
    return logs().add_metric("loss", loss).add_output("mask", mask);
  });
  const auto result = loop(TrainState::create(model, optim::sgd(0.05, {.momentum = 0.9}),
                                              {.inputs = {{"x", DType::f32, {2, kFeatures}}},
                                               .seed = 3,
                                               .context = test_device(),
                                               .partitioner = partitioner}),
                           data, {{every(1), step}, {last(), check_replicas()}});
  Trained trained{result.history.collect("loss")[0], {}, result.outputs.collect("mask")};
  for (const char* name : {"params", "batch_stats"}) {
    if (!result.state.contains_collection(name)) continue;
    for (const float value : to_host<float>(result.state.collection(name).flat(), result.state.stream())) {
      trained.leaves.push_back(value);
    }
  }
  return trained;
}

template <class Model>
void expect_that_of_one_process(const Model& model, const Dataset& data) {
  const Trained alone = train(model, data, nullptr);
  const auto partitioner = data_parallel(world(), test_device());
  const Trained together = train(model, data, partitioner);
  ASSERT_EQ(together.losses.size(), alone.losses.size());
  for (std::size_t i = 0; i < alone.losses.size(); ++i) {
    EXPECT_NEAR(together.losses[i], alone.losses[i], 2e-5) << "step " << i;
  }
  ASSERT_EQ(together.leaves.size(), alone.leaves.size());
  double worst = 0;
  for (std::size_t i = 0; i < alone.leaves.size(); ++i) {
    worst = std::max<double>(worst, std::abs(together.leaves[i] - alone.leaves[i]));
  }
  EXPECT_LE(worst, 2e-5);
  ASSERT_EQ(together.masks.size(), alone.masks.size());
  const Stream host(Device::cpu());
  const std::int64_t rows_of_rank = data.spec()[0].shape[0] / partitioner->size();
  for (std::size_t i = 0; i < alone.masks.size(); ++i) {
    const Tensor &all = alone.masks[i].tensor(), &own = together.masks[i].tensor();
    const std::int64_t begin = partitioner->rank() * rows_of_rank, rows = all.shape()[0];
    const std::int64_t end = std::min(begin + own.shape()[0], rows);
    if (begin >= end) continue;
    EXPECT_EQ(to_host<float>(own, host), to_host<float>(all.rows(begin, end), host)) << "the mask of step " << i;
  }
}

TEST(LayersOfRanks, ConvolutionAndBatchNormAndDropout) {
  const nn::Layer network =
      nn::sequential(nn::conv(6, {3, 3}, {.use_bias = false}), nn::batch_norm({.momentum = 0.5, .synchronized = true}),
                     nn::relu(), nn::dropout(0.3), nn::flatten());
  const auto model = with_mask([=](nn::Scope& s, const nn::Var& x) {
    return network(s, x.reshape({x.shape()[0], 2, 4, 3}));
  });
  expect_that_of_one_process(model, unevenly());
}

// The mean is large against the deviation.
TEST(LayersOfRanks, BatchNormFarFromZero) {
  const nn::Layer norm = nn::batch_norm({.synchronized = true});
  expect_that_of_one_process(with_mask([=](nn::Scope& s, const nn::Var& x) { return norm(s, x + 100); }), unevenly());
}

// Each rank computes the statistics of its own rows. A rank without rows has none, and takes the others'.
TEST(LayersOfRanks, BatchNormPerRank) {
  const auto model = with_mask(nn::sequential(nn::dense(6), nn::batch_norm(), nn::relu()));
  const Trained trained = train(model, unevenly(), data_parallel(world(), test_device()));
  for (const float value : trained.leaves) EXPECT_TRUE(std::isfinite(value));
}

TEST(LayersOfRanks, TransformerWithDropout) {
  const nn::Layer block = nn::transformer_block(
      {.attention = {.heads = 2, .is_causal = true, .dropout = 0.2}, .hidden = 8, .dropout = 0.3});
  const auto model = with_mask([=](nn::Scope& s, const nn::Var& x) {
    return nn::flatten()(s, nn::remat(block)(s, x.reshape({x.shape()[0], 4, 6})));
  });
  expect_that_of_one_process(model, random_rows().batch(12).skip(6));
}

}  // namespace
}  // namespace giro::test
