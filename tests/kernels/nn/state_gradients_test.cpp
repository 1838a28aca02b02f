// TrainState::gradients gives what value_and_grad leaves in grads, for every layer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/recurrent.h>
#include <giro/kernels/nn/remat.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/batch.h>

#include "tests/kernels/nn/gradient_test.h"
#include "tests/kernels/nn/jax/cases.h"
#include "tests/kernels/precisions.h"

namespace giro::nn {
namespace {

class StateGradientsTest : public GradientTest {
 protected:
  void check_case(const Case& of, Precision precision) {
    SCOPED_TRACE(of.name + " in " + std::string(name_of(precision)));
    TrainStateOptions options{.inputs = {}, .seed = 5, .context = device(), .precision = precision};
    Batch::Features features;
    for (const Input& input : of.inputs) {
      const test::Array array = is_floating(input.dtype)
                                    ? random_.uniform(input.shape, input.low, input.high)
                                    : random_.integers(input.shape, static_cast<std::int64_t>(input.low),
                                                       static_cast<std::int64_t>(input.high), input.dtype);
      options.inputs.push_back({input.name, input.dtype, input.shape});
      features.emplace_back(input.name, upload(array));
    }
    stream().synchronize();
    // Each floating input has a gradient, that of a parameter which is added to it.
    const auto model = [&](Scope s, const Batch& batch) {
      Vars inputs;
      for (const Input& input : of.inputs) {
        const Var x = batch[input.name];
        inputs.push_back(is_floating(x.dtype()) ? x + s.param(input.name, x.shape(), zeros()) : x);
      }
      return of.layer(s, inputs).front();
    };
    TrainState state = TrainState::create(model, optim::sgd(0.1), options);
    TrainState other = TrainState::create(model, optim::sgd(0.1), options);  // with its own variables
    const Batch on_state(features, state.stream()), on_other(features, other.stream());
    const auto loss = [&](const Params& params) {
      const Batch& batch = params.stream() == state.stream() ? on_state : on_other;
      return sum(square(cast(model(params, batch), DType::f32)));
    };
    const Var value = state.value_and_grad([&](auto& params) { return loss(params); });
    const auto [again, grads] = other.gradients([&](auto& params) { return loss(params); });
    EXPECT_EQ(to_host<float>(again.value(), other.stream()), to_host<float>(value.value(), state.stream()));
    const std::vector<Leaf>& leaves = state.collection("grads").leaves();
    ASSERT_EQ(grads.size(), leaves.size());
    for (const Leaf& leaf : leaves) {
      const Var& grad = grads.at(leaf.path.substr(std::string("grads/").size()));
      EXPECT_EQ(to_host<float>(grad.value(), other.stream()), to_host<float>(leaf.value, state.stream())) << leaf.path;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, StateGradientsTest, test::kDevices, test::device_name);

TEST_P(StateGradientsTest, AreThoseOfValueAndGrad) {
  std::vector<Precision> precisions;
  if (device().is_cpu()) precisions.push_back(Precision::f32);  // as on any device
  if (test::computes_in(Precision::bf16, device())) precisions.push_back(Precision::bf16);
  for (const Precision precision : precisions) {
    for (const Case& of : layer_cases()) {
      check_case(of, precision);
      if (of.layer.inputs() == 1 && device().is_cpu())
        check_case({of.name + ", remat", of.inputs, remat(of.layer)}, precision);
    }
  }
}

// An LSTM's gradients can be differentiated again: as those of its steps, one cell after the other.
TEST_P(StateGradientsTest, LstmHasSecondDerivatives) {
  constexpr std::int64_t kBatch = 2, kSteps = 3, kInputs = 4, kFeatures = 3;
  const Layer steps("steps", [](Scope& s, const Var& x) {
    const LstmCell cell{kFeatures};
    const Var zero = broadcast_to(arange(1, s.stream(), DType::i32) * 0, {kBatch, kFeatures});
    Carry carry{cast(zero, DType::f32), cast(zero, DType::f32)};
    Vars hidden;
    for (std::int64_t t = 0; t < kSteps; ++t) {
      carry = cell(s, carry, slice(x, {.axis = 1, .begin = t, .end = t + 1}).reshape({kBatch, kInputs}));
      hidden.push_back(carry[0]);
    }
    return stack(hidden, 1);
  });
  const std::vector<std::pair<std::string, test::Array>> values{
      {"kernel", random_.uniform({kInputs, 4 * kFeatures}, -0.8, 0.8)},
      {"recurrent_kernel", random_.uniform({kFeatures, 4 * kFeatures}, -0.8, 0.8)},
      {"bias", random_.uniform({4 * kFeatures}, -0.8, 0.8)},
      {"x", random_.uniform({kBatch, kSteps, kInputs}, -1.5, 1.5)}};
  // The gradients of the squared norm of the gradients, with respect to the same values.
  const auto second = [&](const Layer& layer, const std::vector<std::size_t>& wanted) {
    std::map<std::string, Var> params;
    Vars all;
    Tensors grads;
    for (const auto& [name, array] : values) {
      grads.push_back(allocate(DType::f32, array.shape));
      stream().fill(grads.back().raw(), 0, grads.back().bytes());
      all.push_back(Var::parameter(upload(array), grads.back(), stream()));
      if (name != "x") params.emplace(name, all.back());
    }
    const Var loss = sum(square(layer(Params(params, stream(), Mode::train), all.back())));
    Vars of;
    for (const std::size_t i : wanted) of.push_back(all[i]);
    Var norm;
    for (const Var& grad : nn::gradients(loss, of)) {
      const Var term = sum(square(grad));
      norm = norm.value() ? norm + term : term;
    }
    backward(norm);
    std::vector<std::vector<float>> found;
    for (const Tensor& grad : grads) found.push_back(to_host<float>(grad, stream()));
    return found;
  };
  for (const std::vector<std::size_t>& wanted : {std::vector<std::size_t>{3}, {1}, {0, 1, 2, 3}}) {
    const auto found = second(nn::lstm(kFeatures), wanted), expected = second(steps, wanted);
    for (std::size_t i = 0; i < values.size(); ++i) {
      SCOPED_TRACE(values[i].first);
      double largest = 0;
      for (const float each : expected[i]) largest = std::max(largest, std::abs(static_cast<double>(each)));
      EXPECT_GT(largest, 0);
      for (std::size_t k = 0; k < expected[i].size(); ++k) EXPECT_NEAR(found[i][k], expected[i][k], 1e-5 * largest);
    }
  }
}

}  // namespace
}  // namespace giro::nn
