#include <giro/kernels/optim/train_state.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/runtime/program/graph.h>

#include "runtime/arena.h"
#include "runtime/backend.h"
#include "tests/kernels/nn/models.h"
#include "tests/kernels/nn/reference.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/precisions.h"
#include "tests/support/environment_setting.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Doubles;
using Paths = std::vector<std::string>;

constexpr std::int64_t kBatch = 5;
constexpr double kLearningRate = 1e-3;

// A batch of images on a device.
class DeviceImages {
 public:
  DeviceImages(const test::Images& images, std::int64_t begin, std::int64_t count, const Stream& stream)
      : pixels_(stream.allocate(static_cast<std::size_t>(count * images.size * images.size))),
        labels_(stream.allocate(static_cast<std::size_t>(count))),
        image(pixels_.data(), DType::u8, {count, images.size, images.size, 1}, stream.device()),
        label(labels_.data(), DType::u8, {count}, stream.device()) {
    stream.copy(image.raw(), images.pixels.data() + begin * images.size * images.size, image.bytes());
    stream.copy(label.raw(), images.labels.data() + begin, label.bytes());
    stream.synchronize();
  }

 private:
  Buffer pixels_, labels_;

 public:
  Tensor image, label;
};

nn::Var loss_of_state(const nn::Layer& model, const nn::Params& params, const DeviceImages& batch) {
  return mean(softmax_cross_entropy(model(params, batch.image), batch.label));
}

class TrainStateTest : public test::OpTest {
 protected:
  TrainState create(const nn::Layer& model, const Shape& input, const optim::Optimizer& optimizer,
                    std::uint64_t seed = 0) const {
    return TrainState::create(model, optimizer,
                              {.inputs = {{"image", DType::f32, input}}, .seed = seed, .context = device()});
  }
  static std::vector<float> values(const State& state, const std::string& path) {
    return to_host<float>(state.at(path), state.stream());
  }
  // The leaves of `collection`, by their path within it.
  static test::ReferenceParams doubles(const State& state, const std::string& collection) {
    test::ReferenceParams result;
    for (const Leaf& leaf : state.collection(collection).leaves()) {
      const std::vector<float> leaf_values = to_host<float>(leaf.value, state.stream());
      result[leaf.path.substr(collection.size() + 1)] = Doubles(leaf_values.begin(), leaf_values.end());
    }
    return result;
  }
  static test::ReferenceImages reference_batch(const test::Images& images, std::int64_t begin, std::int64_t count) {
    test::ReferenceImages batch(count, images.size, images.size, 1);
    const auto first = images.pixels.begin() + begin * images.size * images.size;
    std::copy_n(first, batch.values.size(), batch.values.begin());
    return batch;
  }
  static std::vector<std::uint8_t> reference_labels(const test::Images& images, std::int64_t begin,
                                                    std::int64_t count) {
    return {images.labels.begin() + begin, images.labels.begin() + begin + count};
  }

  // Runs ten steps of the model and of the reference, with the same parameters and batches.
  void check_losses(const nn::Layer& model, test::ReferenceClassifier reference, std::int64_t size) {
    constexpr std::int64_t kSteps = 10;
    const test::Images images(kSteps * kBatch, size);
    TrainState state = create(model, {kBatch, size, size, 1}, optim::adamw(kLearningRate));
    reference.params = doubles(state, "params");
    double first = 0, last = 0;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const DeviceImages batch(images, step * kBatch, kBatch, state.stream());
      const nn::Var loss = state.value_and_grad([&](auto& params) { return loss_of_state(model, params, batch); });
      state.apply_gradients();
      const double expected = reference.adamw_step(reference_batch(images, step * kBatch, kBatch),
                                                   reference_labels(images, step * kBatch, kBatch), kLearningRate);
      // A few hundred roundings of numbers of the loss's size. Parameters whose gradient is only rounding error may
      // move either way under adam, but for the same reason they hardly matter.
      last = to_host<float>(loss.value(), state.stream()).front();
      EXPECT_NEAR(last, expected, 300 * test::kUnit * expected) << "step " << step;
      if (step == 0) first = last;
    }
    EXPECT_NE(first, last);
  }

  // Compares all gradients of one batch with the reference's.
  void check_gradients(const nn::Layer& model, test::ReferenceClassifier reference, std::int64_t size) {
    const test::Images images(kBatch, size);
    TrainState state = create(model, {kBatch, size, size, 1}, optim::adamw(kLearningRate), 1);
    reference.params = doubles(state, "params");
    const DeviceImages batch(images, 0, kBatch, state.stream());
    state.value_and_grad([&](auto& params) { return loss_of_state(model, params, batch); });
    test::ReferenceParams expected;
    reference.loss_and_grads(reference_batch(images, 0, kBatch), reference_labels(images, 0, kBatch), expected);
    const test::ReferenceParams actual = doubles(state, "grads");
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [path, grads] : actual) {
      double largest = 0;
      for (const double grad : expected.at(path)) largest = std::max(largest, std::abs(grad));
      EXPECT_GT(largest, 0) << path;
      test::Expected within;
      for (const double grad : expected.at(path)) within.add(grad, 1e-5 * largest);
      test::expect_close(path, grads, within);
    }
  }

  // Compares the reference's own gradients with finite differences of its loss, for up to 40 elements of each
  // parameter.
  static void check_reference(const TrainState& state, test::ReferenceClassifier reference, std::int64_t size) {
    const test::Images images(kBatch, size);
    const test::ReferenceImages pixels = reference_batch(images, 0, kBatch);
    reference.params = doubles(state, "params");
    test::ReferenceParams grads;
    reference.loss_and_grads(pixels, images.labels, grads);
    for (auto& [path, param] : reference.params) {
      test::Expected expected;
      Doubles actual;
      for (std::size_t i = 0; i < param.size(); i += std::max<std::size_t>(1, param.size() / 40)) {
        constexpr double kStep = 1e-5;
        const double middle = param[i];
        param[i] = middle + kStep;
        const double above = reference.loss(pixels, images.labels);
        param[i] = middle - kStep;
        const double below = reference.loss(pixels, images.labels);
        param[i] = middle;
        actual.push_back(grads.at(path)[i]);
        expected.add((above - below) / (2 * kStep), 1e-8 + 1e-5 * std::abs(actual.back()));
      }
      test::expect_close(path, actual, expected);
    }
  }
};

TEST_P(TrainStateTest, TenLossesOfTheLinearModel) {
  check_losses(test::linear_model(), test::ReferenceClassifier::linear(), 28);
}

TEST_P(TrainStateTest, TenLossesOfTheCnn) { check_losses(test::cnn_model(), test::ReferenceClassifier::cnn(), 12); }

TEST_P(TrainStateTest, GradientsOfTheModels) {
  check_gradients(test::linear_model(), test::ReferenceClassifier::linear(), 28);
  check_gradients(test::cnn_model(), test::ReferenceClassifier::cnn(), 12);
}

class ReferenceClassifierTest : public TrainStateTest {};
INSTANTIATE_TEST_SUITE_P(Devices, ReferenceClassifierTest, testing::Values(Device::Kind::cpu), test::device_name);

TEST_P(ReferenceClassifierTest, MatchesFiniteDifferences) {
  check_reference(create(test::linear_model(), {kBatch, 4, 4, 1}, optim::sgd(0.1)), test::ReferenceClassifier::linear(),
                  4);
  check_reference(create(test::cnn_model(), {kBatch, 4, 4, 1}, optim::sgd(0.1)), test::ReferenceClassifier::cnn(), 4);
}

TEST_P(TrainStateTest, Tree) {
  const auto paths = [](const TrainState& state) {
    Paths result;
    for (const Leaf& leaf : state.flatten()) result.push_back(leaf.path);
    return result;
  };
  const Shape input{kBatch, 4, 4, 1};
  EXPECT_EQ(paths(create(test::linear_model(), input, optim::adamw(1e-3))),
            (Paths{"params/dense0/kernel", "params/dense0/bias", "grads/dense0/kernel", "grads/dense0/bias",
                   "opt_state/mu/dense0/kernel", "opt_state/mu/dense0/bias", "opt_state/nu/dense0/kernel",
                   "opt_state/nu/dense0/bias", "step", "learning_rate", "learning_rate_scale", "seed"}));
  EXPECT_EQ(paths(create(test::linear_model(), input, optim::sgd(0.1))),
            (Paths{"params/dense0/kernel", "params/dense0/bias", "grads/dense0/kernel", "grads/dense0/bias", "step",
                   "learning_rate", "learning_rate_scale", "seed"}));
  EXPECT_EQ(paths(create(test::linear_model(), input, optim::sgd(0.1, {.momentum = 0.9}))).size(), 10u);

  const TrainState state = create(test::linear_model(), input, optim::adamw(1e-3), 17);
  EXPECT_FALSE(state.collection("grads").saved());
  EXPECT_FALSE(state.collection("learning_rate").saved());
  for (const char* saved : {"params", "opt_state/mu", "opt_state/nu", "step", "seed"}) {
    EXPECT_TRUE(state.collection(saved).saved()) << saved;
  }
  EXPECT_EQ(to_host<std::int64_t>(state.at("seed"), state.stream()).front(), 17);
  EXPECT_EQ(to_host<std::int64_t>(state.at("step"), state.stream()).front(), 0);
}

TEST_P(TrainStateTest, ParametersAreAFunctionOfTheSeed) {
  const Shape input{kBatch, 8, 8, 1};
  const auto params = [&](std::uint64_t seed) {
    return doubles(create(test::cnn_model(), input, optim::adamw(1e-3), seed), "params");
  };
  EXPECT_EQ(params(3), params(3));
  EXPECT_NE(params(3), params(4));
  const TrainState on_host =
      TrainState::create(test::cnn_model(), optim::adamw(1e-3),
                         {.inputs = {{"image", DType::u8, input}}, .seed = 3, .context = Device::cpu()});
  EXPECT_EQ(params(3), doubles(on_host, "params"));
  // Each leaf draws from its own random stream.
  EXPECT_NE(params(3).at("dense0/kernel")[0] * 16, params(3).at("dense1/kernel")[0] * 16);
  EXPECT_EQ(params(3).at("conv0/bias"), Doubles(32));
}

TEST_P(TrainStateTest, ErrorsOfCreation) {
  expect_error(ErrorCode::invalid_argument, {"spec", "empty"}, [&] {
    TrainState::create(test::linear_model(), optim::adamw(1e-3), {.inputs = {}, .context = device()});
  });
  expect_error(ErrorCode::shape_mismatch, {"conv(32)", "(5, 784)"}, [&] {
    create(test::cnn_model(), {kBatch, 784}, optim::adamw(1e-3));
  });
}

TEST_P(TrainStateTest, UnusedParametersGetZeros) {
  const nn::Layer model = nn::sequential(nn::dense(3), nn::dense(3), nn::dense(3));
  TrainState state = create(model, {2, 3}, optim::sgd(0.1));
  const auto poison = [&] {
    state.stream().fill(state.collection("grads").bytes().raw(), 0xFF, state.collection("grads").bytes().bytes());
  };
  poison();
  state.value_and_grad([&](auto& params) { return sum(params["dense1/kernel"]); });
  EXPECT_EQ(values(state, "grads/dense0/kernel"), std::vector<float>(9, 0));
  EXPECT_EQ(values(state, "grads/dense1/kernel"), std::vector<float>(9, 1));
  EXPECT_EQ(values(state, "grads/dense1/bias"), std::vector<float>(3, 0));
  EXPECT_EQ(values(state, "grads/dense2/kernel"), std::vector<float>(9, 0));
}

TEST_P(TrainStateTest, StatesWithoutElementsWorkInAnyPrecision) {
  std::vector<Precision> precisions = test::other_precisions(device());
  precisions.push_back(Precision::f32);
  for (const Precision precision : precisions) {
    for (const bool has_leaf : {false, true}) {
      const nn::Layer model("none", [has_leaf](nn::Scope& s, const nn::Var& x) {
        return has_leaf ? x + sum(s.param("none", {0, 3}, nn::zeros())) : x;
      });
      TrainState state = TrainState::create(
          model, optim::sgd(0.1), {.inputs = {{"x", DType::f32, {2}}}, .context = device(), .precision = precision});
      const Tensor x = tensor({2});
      fill(x, 3, state.stream());
      EXPECT_EQ(to_host<float>(model(state.params(), nn::Var(x, state.stream())).value(), state.stream()),
                (std::vector<float>{3, 3}));
      if (!has_leaf) continue;
      EXPECT_EQ(state.params()["none"].dtype(), compute_dtype(precision));
      state.value_and_grad([&](auto& params) { return mean(model(params, nn::Var(x, state.stream()))); });
      state.apply_gradients();
    }
  }
}

TEST_P(TrainStateTest, SharedParameterGetsBothGradients) {
  const nn::Layer model = nn::sequential(nn::dense(3));
  TrainState state = create(model, {2, 3}, optim::sgd(0.1));
  state.value_and_grad(
      [&](auto& params) { return add(sum(params["dense0/kernel"]), scale(sum(params["dense0/kernel"]), 4.0)); });
  EXPECT_EQ(values(state, "grads/dense0/kernel"), std::vector<float>(9, 5));
}

TEST_P(TrainStateTest, ErrorsOfTheLoss) {
  TrainState state = create(test::linear_model(), {kBatch, 4, 4, 1}, optim::sgd(0.1));
  const auto expect_error = [&](ErrorCode code, std::initializer_list<std::string> words, const auto& call) {
    test::expect_error(code, words, call);
    test::expect_error(code, words, [&] { Graph::record(state.stream(), call); });
  };
  expect_error(ErrorCode::shape_mismatch, {"loss", "(10,)"},
               [&] { state.value_and_grad([&](auto& params) { return relu(params["dense0/bias"]); }); });
  expect_error(ErrorCode::invalid_argument, {"no parameter"},
               [&] { state.value_and_grad([&](auto&) { return sum(state.params()["dense0/bias"]); }); });
  const test::Images images(kBatch, 4);
  const DeviceImages batch(images, 0, kBatch, state.stream());
  expect_error(ErrorCode::invalid_argument, {"no parameter"}, [&] {
    state.value_and_grad([&](auto& params) { return accuracy(state.model()(params, batch.image), batch.label); });
  });
  expect_error(ErrorCode::not_found, {"'dense0/weight'", "did you mean"},
               [&] { state.value_and_grad([&](auto& params) { return sum(params["dense0/weight"]); }); });
}

TEST_P(TrainStateTest, ParamsRecordNoGradient) {
  const TrainState state = create(test::linear_model(), {kBatch, 4, 4, 1}, optim::sgd(0.1));
  const test::Images images(kBatch, 4);
  const DeviceImages batch(images, 0, kBatch, state.stream());
  EXPECT_FALSE(loss_of_state(state.model(), state.params(), batch).requires_grad());
}

TEST_P(TrainStateTest, ValueAndGradReturnsTheFunctionsResult) {
  TrainState state = create(test::linear_model(), {kBatch, 4, 4, 1}, optim::sgd(0.1));
  const auto [loss, what] = state.value_and_grad([&](auto& params) {
    return std::pair{sum(params["dense0/bias"]), std::string("besides")};
  });
  EXPECT_EQ(what, "besides");
  EXPECT_EQ(to_host<float>(loss.value(), state.stream()).front(), 0);
}

TEST_P(TrainStateTest, ApplyGradientsCountsSteps) {
  TrainState state = create(test::linear_model(), {kBatch, 4, 4, 1}, optim::sgd(optim::warmup(1.0, 4)));
  const std::vector<float> rates{0.0f, 0.25f, 0.5f, 0.75f, 1.0f, 1.0f};
  for (std::size_t i = 0; i < rates.size(); ++i) {
    state.apply_gradients();
    EXPECT_EQ(values(state, "learning_rate").front(), rates[i]);
    EXPECT_EQ(to_host<std::int64_t>(state.at("step"), state.stream()).front(), static_cast<std::int64_t>(i + 1));
  }
}

TEST_P(TrainStateTest, DecayMaskExcludesParameters) {
  const auto mask = [](const std::string& path) { return path.ends_with("/kernel"); };
  const nn::Layer model = nn::sequential(nn::dense(3, {.bias_init = nn::ones()}));
  TrainState state = create(model, {2, 5}, optim::adamw(0.5, {.weight_decay = 0.5, .decay_mask = mask}));
  EXPECT_FALSE(state.collection("opt_state/decays").saved());
  const std::vector<float> kernel = values(state, "params/dense0/kernel");
  state.apply_gradients();  // the gradients are zero
  EXPECT_EQ(values(state, "params/dense0/bias"), std::vector<float>(3, 1));
  const std::vector<float> decayed = values(state, "params/dense0/kernel");
  for (std::size_t i = 0; i < kernel.size(); ++i) EXPECT_FLOAT_EQ(decayed[i], 0.75f * kernel[i]);
}

TEST_P(TrainStateTest, ClippingScalesByTheGlobalNorm) {
  const nn::Layer model = nn::sequential(nn::dense(4, {.kernel_init = nn::zeros()}));
  const auto update = [&](double max_norm, double factor) {
    TrainState state = create(model, {2, 3}, optim::clip_by_global_norm(max_norm, optim::sgd(1.0)));
    // 12 elements of factor * 2 and 4 of factor * 2: the norm is 8 factor.
    state.value_and_grad(
        [&](auto& params) { return scale(add(sum(params["dense0/kernel"]), sum(params["dense0/bias"])), 2 * factor); });
    state.apply_gradients();
    return -values(state, "params/dense0/kernel").front();
  };
  EXPECT_FLOAT_EQ(update(4, 1), 1.0f);
  EXPECT_FLOAT_EQ(update(1, 1), 0.25f);
  EXPECT_FLOAT_EQ(update(100, 1), 2.0f);
  EXPECT_FLOAT_EQ(update(4, 100), 1.0f);
  EXPECT_FLOAT_EQ(update(4, 1e20), 1.0f);
  EXPECT_FLOAT_EQ(update(4e-25, 1e-25), 1e-25f);
}

TEST_P(TrainStateTest, AddressesSurviveAMove) {
  TrainState state = create(test::linear_model(), {kBatch, 4, 4, 1}, optim::adamw(1e-3));
  const void* const kernel = state.at("params/dense0/kernel").raw();
  const auto identity = state.identity();
  const TrainState moved = std::move(state);
  EXPECT_EQ(moved.at("params/dense0/kernel").raw(), kernel);
  EXPECT_EQ(moved.identity(), identity);
}

TEST_P(TrainStateTest, TemporariesOfAStepAreReused) {
  const test::ArenaSetting on("1");
  constexpr std::int64_t kRows = 1'024, kFeatures = 256, kLayers = 12;
  const nn::Layer layer = nn::dense(kFeatures, {.activation = Activation::tanh});
  const nn::Layer model = nn::sequential(std::vector<nn::Layer>(kLayers, layer));
  const Tensor input = tensor({kRows, kFeatures});
  TrainState state = TrainState::create(model, optim::adamw(1e-3),
                                        {.inputs = {{"x", DType::f32, input.shape()}}, .context = device()});
  const Graph graph = Graph::record(state.stream(), [&] {
    state.value_and_grad([&](auto& params) { return mean(model(params, input)); });
    state.apply_gradients();
  });
  // Each layer has an output, its gradient, and the gradient before tanh. The last two are needed only briefly.
  constexpr std::size_t kBytes = kRows * kFeatures * sizeof(float);
  EXPECT_GE(graph.arena_bytes(), kLayers * kBytes);
  EXPECT_LE(graph.arena_bytes(), 2 * kLayers * kBytes);
}

TEST_P(TrainStateTest, MemoryDoesNotGrowOverEagerSteps) {
  const test::ArenaSetting on("1");
  const nn::Layer model = test::linear_model();
  const test::Images images(kBatch, 8);
  TrainState state = create(model, {kBatch, 8, 8, 1}, optim::clip_by_global_norm(1.0, optim::adamw(1e-3)));
  const DeviceImages batch(images, 0, kBatch, state.stream());
  const auto run_steps = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      state.value_and_grad([&](auto& params) { return loss_of_state(model, params, batch); });
      state.apply_gradients();
    }
    return state.stream().impl().arena->reserved_bytes();
  };
  const std::size_t reserved = run_steps(2);
  EXPECT_GT(reserved, 0u);
  EXPECT_EQ(run_steps(device().is_cuda() ? 500 : 1'000), reserved);
}

// Compares models with every kind of layer with finite differences of their own outputs.
TEST_P(TrainStateTest, GradientsOfEveryLayer) {
  using nn::Padding;
  const test::Array x = random_.uniform({2, 6, 5, 2});
  const std::map<std::string, nn::Layer> models{
      {"conv with strides, tanh, avg_pool",
       nn::sequential(nn::conv(3, {3, 2}, {.activation = Activation::tanh, .strides = {1, 2}}), nn::avg_pool({2, 1}),
                      nn::flatten(), nn::dense(2))},
      {"valid conv, gelu, avg_pool that overlaps",
       nn::sequential(nn::conv(3, {2, 2}, {.padding = Padding::valid, .use_bias = false}), nn::gelu(),
                      nn::avg_pool({2, 2}, {1, 1}), nn::flatten(), nn::dense(2, {.activation = Activation::sigmoid}))},
      {"dense of every smooth activation",
       nn::sequential(nn::scale(0.5), nn::flatten(), nn::dense(3, {.activation = Activation::gelu}), nn::tanh(),
                      nn::dense(3, {.activation = Activation::tanh, .use_bias = false}), nn::sigmoid(),
                      nn::sequential(nn::dense(3, {.activation = Activation::sigmoid}), nn::dense(2)))},
  };
  for (const auto& [name, model] : models) {
    SCOPED_TRACE(name);
    const Tensor input = tensor(x.shape);
    from_host(input, std::vector<float>(x.values.begin(), x.values.end()), stream());
    stream().synchronize();
    TrainState state = TrainState::create(model, optim::sgd(0.1),
                                          {.inputs = {{"x", DType::f32, x.shape}}, .seed = 5, .context = device()});
    state.value_and_grad([&](auto& params) { return sum(model(params, input)); });
    const auto total = [&] {
      const nn::Var y = model(state.params(), input);
      double sum = 0;
      for (const float value : to_host<float>(y.value(), state.stream())) sum += static_cast<double>(value);
      return sum;
    };
    for (const Leaf& leaf : state.collection("params").leaves()) {
      constexpr double kStep = 0x1p-5;
      test::Expected expected;
      std::vector<float> param = to_host<float>(leaf.value, state.stream());
      for (float& value : param) {
        const float middle = value;
        const auto at = [&](double offset) {
          value = static_cast<float>(static_cast<double>(middle) + offset);
          from_host(leaf.value, param, state.stream());
          return total();
        };
        const double slope = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
        value = middle;
        expected.add(slope, 1e-4 * std::max(1.0, std::abs(slope)));
      }
      from_host(leaf.value, param, state.stream());
      const std::vector<float> grads = values(state, "grads" + leaf.path.substr(6));
      test::expect_close(leaf.path, {grads.begin(), grads.end()}, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TrainStateTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
