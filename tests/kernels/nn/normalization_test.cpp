#include <giro/kernels/nn/normalization.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>

#include "kernels/rules/record.h"
#include "tests/kernels/nn/gradient_test.h"
#include "tests/kernels/nn/leaves_of.h"
#include "tests/support/tensor_ops.h"

namespace giro::nn {
namespace {

using test::Array, test::kUnit;

class NormalizationTest : public GradientTest {
 protected:
  // A layer without parameters, in a recorded step of training, with the gradient of the mean of y^4.
  struct Training {
    Tensor y, gradient;
    std::map<std::string, Tensor> variables;
    std::optional<Graph> step;
  };
  Training training(const Layer& layer, const Array& given) {
    Training of{allocate(DType::f32, given.shape), allocate(DType::f32, given.shape), {}, {}};
    for (const DeclaredLeaf& leaf : test::leaves_of(layer, given.shape, stream())) {
      const Tensor& value = of.variables[leaf.collection + "/" + leaf.name] = allocate(DType::f32, leaf.shape);
      from_host(value, leaf.initializer(leaf.shape.count(), leaf.fans, Rng()), stream());
    }
    const Tensor x = upload(given);
    of.step = rules::record(stream(), [&] {
      ScopeValues values{.stream = stream(), .mode = Mode::train};
      for (const auto& [path, value] : of.variables) values.variables.emplace(path, Var(value, stream()));
      const Params params(values);
      const Var y = layer(params, Var::parameter(x, of.gradient, stream()));
      copy(of.y, y.value(), stream());
      backward(mean(square(square(y))));
      for (const auto& [path, value] : params.written()) copy(of.variables.at(path), value.value(), stream());
    });
    return of;
  }
  Doubles values(const Tensor& of) { return read(Var(of, stream())); }
};

// Channel c has a mean of 10^c and a deviation of 1. The variance mean(x^2) - mean(x)^2 was off until the moving mean
// came close.
TEST_P(NormalizationTest, BatchNormIsExactWhereTheMeanIsLarge) {
  constexpr std::int64_t kRows = 64, kChannels = 6;
  const NormOptions plain{.use_scale = false, .use_bias = false};
  Array x = random_.uniform({kRows, kChannels}, -std::sqrt(3), std::sqrt(3));
  Array columns{DType::f32, {kChannels, kRows}, Doubles(x.values.size())};
  const auto transposed = [](const Doubles& of_columns) {
    Doubles of_rows;
    for (std::size_t i = 0; i < of_columns.size(); ++i) {
      of_rows.push_back(of_columns[i % kChannels * kRows + i / kChannels]);
    }
    return of_rows;
  };
  test::Expected y;
  Doubles mean(kChannels), variance(kChannels), error(kChannels);  // error: of the mean
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (std::size_t r = 0; r < kRows; ++r) {
      double& value = x.values[r * kChannels + c];
      value = test::round_to(DType::f32, value + std::pow(10, c));
      columns.values[c * kRows + r] = value;
      mean[c] += value / kRows;
    }
    for (std::size_t r = 0; r < kRows; ++r) variance[c] += std::pow(columns.values[c * kRows + r] - mean[c], 2) / kRows;
    error[c] = 8 * kUnit * std::abs(mean[c]);
  }
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::size_t c = i % kChannels;
    const double deviation = std::sqrt(variance[c] + plain.epsilon), wanted = (x.values[i] - mean[c]) / deviation;
    y.add(wanted, (error[c] + error[c] * error[c] + 16 * kUnit) / deviation * (1 + std::abs(wanted)));
  }

  const Training of_rows = training(batch_norm({.use_scale = false, .use_bias = false}), x),
                 of_columns = training(layer_norm(plain), columns);
  of_columns.step->replay(stream());
  int steps = 0;
  for (const int next : {1, 10, 100, 300}) {
    SCOPED_TRACE(next);
    of_rows.step->replay(stream(), next - steps);
    steps = next;
    const Doubles actual = values(of_rows.y);
    test::expect_close("y", actual, y);
    EXPECT_EQ(actual, transposed(values(of_columns.y)));
    EXPECT_EQ(values(of_rows.gradient), transposed(values(of_columns.gradient)));
    const double kept = std::pow(0.99, steps);
    test::Expected means, variances;
    for (std::size_t c = 0; c < kChannels; ++c) {
      const double moving = kept + (1 - kept) * variance[c];
      means.add((1 - kept) * mean[c], error[c] + steps * kUnit * std::abs(mean[c]));
      variances.add(moving, error[c] * error[c] + (steps + 16) * kUnit * moving);
    }
    test::expect_close("mean", values(of_rows.variables.at("batch_stats/mean")), means);
    test::expect_close("variance", values(of_rows.variables.at("batch_stats/var")), variances);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, NormalizationTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
