// Compares the gradients of layers with finite differences of their own output, and their outputs with formulas.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/normalization.h>
#include <giro/kernels/nn/recurrent.h>

#include "tests/kernels/nn/gradient_test.h"
#include "tests/kernels/nn/leaves_of.h"

namespace giro::nn {
namespace {

class LayerGradientTest : public GradientTest {
 protected:
  // In training mode, with respect to the input and all parameters.
  void check_layer(const std::string& name, const Layer& layer, const Shape& input) {
    const std::vector<DeclaredLeaf> leaves = test::leaves_of(layer, input, stream());
    std::vector<test::Array> arguments{random_.uniform(input, -1.5, 1.5)};
    for (const DeclaredLeaf& leaf : leaves) {
      if (leaf.collection == "params") arguments.push_back(random_.uniform(leaf.shape, -0.8, 0.8));
    }
    check(name, arguments, [&](const Vars& in) {
      ScopeValues values{.stream = stream(), .mode = Mode::train};
      std::size_t i = 1;
      for (const DeclaredLeaf& leaf : leaves) {
        if (leaf.collection == "params") {
          values.params.emplace(leaf.name, in[i++]);
        } else {
          const std::vector<float> initial = leaf.initializer(leaf.shape.count(), leaf.fans, Rng());
          values.variables.emplace(leaf.collection + "/" + leaf.name,
                                   constant(HostArray(initial, leaf.shape), stream()));
        }
      }
      return layer(Params(values), in[0]);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, LayerGradientTest, test::kDevices, test::device_name);

TEST_P(LayerGradientTest, Normalization) {
  check_layer("layer_norm", layer_norm(), {3, 2, 7});
  check_layer("layer_norm without an affine map", layer_norm({.use_scale = false, .use_bias = false}), {5, 4});
  check_layer("rms_norm", rms_norm(), {3, 2, 7});
  check_layer("group_norm", group_norm(2), {2, 3, 2, 6});
  check_layer("batch_norm", batch_norm(), {4, 3, 5});
  check_layer("batch_norm of rows", batch_norm(), {7, 3});
}

TEST_P(LayerGradientTest, Recurrent) {
  check_layer("lstm", lstm(3), {2, 4, 5});
  check_layer("lstm in reverse", lstm(2, {.reverse = true, .use_bias = false}), {3, 3, 2});
  check_layer("gru", gru(3), {2, 4, 5});
}

TEST_P(LayerGradientTest, Composed) {
  check_layer("swiglu", swiglu(6), {3, 4});
  check_layer("residual", residual(sequential(dense(6, {.activation = Activation::tanh}), dense(4))), {3, 4});
  check_layer("dense over the last axis", dense(3), {2, 3, 4});
}

TEST_P(LayerGradientTest, NormalizedValues) {
  const test::Array x = random_.uniform({6, 5}, 2, 7);
  const auto value_of = [&](std::int64_t r, std::int64_t c) { return x.values[static_cast<std::size_t>(5 * r + c)]; };
  const auto run = [&](const Layer& layer, Mode mode, std::map<std::string, Var> variables = {}) {
    ScopeValues values{.stream = stream(), .mode = mode, .variables = std::move(variables)};
    for (const DeclaredLeaf& leaf : test::leaves_of(layer, x.shape, stream())) {
      const std::vector<float> initial = leaf.initializer(leaf.shape.count(), leaf.fans, Rng());
      const Var v = constant(HostArray(initial, leaf.shape), stream());
      if (leaf.collection == "params") {
        values.params.emplace(leaf.name, v);
      } else {
        values.variables.emplace(leaf.collection + "/" + leaf.name, v);
      }
    }
    const Params params(values);
    const Doubles y = read(layer(params, Var(upload(x), stream())));
    return std::pair(y, params.written());
  };
  const auto expect = [&](const Doubles& y, const auto& wanted, const std::string& name) {
    SCOPED_TRACE(name);
    for (std::int64_t r = 0; r < 6; ++r) {
      for (std::int64_t c = 0; c < 5; ++c) EXPECT_NEAR(y[static_cast<std::size_t>(5 * r + c)], wanted(r, c), 4e-6);
    }
  };
  double column_mean[5], column_variance[5];
  for (std::int64_t c = 0; c < 5; ++c) {
    column_mean[c] = column_variance[c] = 0;
    for (std::int64_t r = 0; r < 6; ++r) column_mean[c] += value_of(r, c) / 6;
    for (std::int64_t r = 0; r < 6; ++r) column_variance[c] += std::pow(value_of(r, c) - column_mean[c], 2) / 6;
  }
  expect(
      run(layer_norm(), Mode::train).first,
      [&](std::int64_t r, std::int64_t c) {
        double mean = 0, variance = 0;
        for (std::int64_t k = 0; k < 5; ++k) mean += value_of(r, k) / 5;
        for (std::int64_t k = 0; k < 5; ++k) variance += std::pow(value_of(r, k) - mean, 2) / 5;
        return (value_of(r, c) - mean) / std::sqrt(variance + 1e-5);
      },
      "layer_norm");
  expect(
      run(rms_norm(), Mode::eval).first,
      [&](std::int64_t r, std::int64_t c) {
        double squares = 0;
        for (std::int64_t k = 0; k < 5; ++k) squares += std::pow(value_of(r, k), 2) / 5;
        return value_of(r, c) / std::sqrt(squares + 1e-6);
      },
      "rms_norm");
  const auto [y, written] = run(batch_norm({.momentum = 0.75}), Mode::train);
  expect(
      y,
      [&](std::int64_t r, std::int64_t c) {
        return (value_of(r, c) - column_mean[c]) / std::sqrt(column_variance[c] + 1e-5);
      },
      "batch_norm in training");
  const Doubles mean = read(written.at("batch_stats/mean")), variance = read(written.at("batch_stats/var"));
  for (std::size_t c = 0; c < 5; ++c) {
    EXPECT_NEAR(mean[c], 0.25 * column_mean[c], 4e-6);
    EXPECT_NEAR(variance[c], 0.75 + 0.25 * column_variance[c], 4e-6);
  }
  const auto [of_eval, nothing] = run(batch_norm(), Mode::eval, written);
  EXPECT_TRUE(nothing.empty());
  expect(
      of_eval,
      [&](std::int64_t r, std::int64_t c) {
        const auto k = static_cast<std::size_t>(c);
        return (value_of(r, c) - mean[k]) / std::sqrt(variance[k] + 1e-5);
      },
      "batch_norm in evaluation");
}

}  // namespace
}  // namespace giro::nn
