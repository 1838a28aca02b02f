#include <giro/kernels/nn/remat.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/runtime/host_array.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "tests/kernels/nn/leaves_of.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/precisions.h"
#include "tests/support/environment_setting.h"

namespace giro::nn {
namespace {

class RematTest : public test::OpTest {
 protected:
  // The parameters of a layer, the same at every call, with their gradients.
  struct Leaves {
    std::vector<Buffer> memory;
    std::vector<Tensor> grads;
    std::map<std::string, Var> vars;
    Params params(const Stream& stream) const { return Params(vars, stream); }
  };
  Leaves leaves_of(const Layer& layer, const Shape& input) {
    Leaves leaves;
    for (const DeclaredLeaf& spec : test::leaves_of(layer, input, stream())) {
      const Tensor value = keep(leaves, spec.shape), grad = keep(leaves, spec.shape);
      const Rng rng{7, RngPurpose::initial_value, leaves.grads.size()};
      from_host(value, spec.initializer(spec.shape.count(), spec.fans, rng), stream());
      leaves.grads.push_back(grad);
      leaves.vars.emplace(spec.name, Var::parameter(value, grad, stream()));
    }
    return leaves;
  }
  Tensor keep(Leaves& leaves, const Shape& shape) {
    leaves.memory.push_back(Buffer::allocate(device(), static_cast<std::size_t>(shape.count()) * sizeof(float)));
    return {leaves.memory.back().data(), DType::f32, shape, device()};
  }
  std::vector<std::vector<float>> gradients(const Leaves& leaves) {
    std::vector<std::vector<float>> all;
    for (const Tensor& grad : leaves.grads) all.push_back(to_host<float>(grad, stream()));
    return all;
  }

  // The gradients of mean(f(params, x)^2).
  template <class F>
  std::vector<std::vector<float>> gradients(const Layer& layer, const Tensor& x, const F& f) {
    const Leaves leaves = leaves_of(layer, x.shape());
    const Params params = leaves.params(stream());
    backward(mean(square(f(params, Var(x, stream())))));
    return gradients(leaves);
  }
  Tensor images(const Shape& shape) {
    test::Random random;
    memory_.push_back(Buffer::allocate(device(), static_cast<std::size_t>(shape.count()) * sizeof(float)));
    const Tensor x(memory_.back().data(), DType::f32, shape, device());
    std::vector<float> values;
    for (const double value : random.uniform(shape, -1, 1).values) values.push_back(static_cast<float>(value));
    from_host(x, values, stream());
    return x;
  }

  static Layer block() { return sequential(dense(24), gelu(), dense(12), tanh()); }

 private:
  std::vector<Buffer> memory_;
};
INSTANTIATE_TEST_SUITE_P(Devices, RematTest, test::kDevices, test::device_name);

TEST_P(RematTest, GradientsHaveTheSameBits) {
  const Layer plain = sequential(block(), block(), block());
  const Tensor x = images({5, 12});
  const auto wanted = gradients(plain, x, [&](const Params& p, const Var& h) { return plain(p, h); });
  const Layer marked = sequential(remat(block()), block(), remat(block()));
  EXPECT_EQ(gradients(marked, x, [&](const Params& p, const Var& h) { return marked(p, h); }), wanted);
  const Layer nested = remat(sequential(remat(block()), remat(block()), block()));
  EXPECT_EQ(gradients(plain, x, [&](const Params& p, const Var& h) { return nested(p, h); }), wanted);
}

TEST_P(RematTest, CapturedValuesGetTheirGradients) {
  const Layer layer = sequential(dense(12), dense(12));
  const Tensor x = images({5, 12});
  // The second part uses its argument and a value of the first part, and a parameter is used inside and outside.
  const auto model = [&](bool again) {
    return [&layer, again](const Params& p, const Var& in) {
      const Var skip = tanh(layer(p, in));
      const auto part = [p, skip](const Var& h) {
        return skip + gelu(dense(h, p["dense1/kernel"], p["dense1/bias"])) * skip.reshape(skip.shape());
      };
      const Var start = sigmoid(skip);
      return again ? remat(part, start) : part(start);
    };
  };
  EXPECT_EQ(gradients(layer, x, model(true)), gradients(layer, x, model(false)));
}

TEST_P(RematTest, ParameterOfTheFunctionGetsItsGradient) {
  const Tensor x = images({3}), dx = images({3}), w = images({3}), dw = images({3});
  const Var in = Var::parameter(x, dx, stream());
  backward(sum(remat([&](const Var& h) { return h * Var::parameter(w, dw, stream()); }, in)));
  EXPECT_EQ(to_host<float>(dw, stream()), to_host<float>(x, stream()));
  EXPECT_EQ(to_host<float>(dx, stream()), to_host<float>(w, stream()));
}

TEST_P(RematTest, IdentityFunctionReturnsItsArgument) {
  const Tensor x = images({2, 12});
  const Var constant(x, stream());
  EXPECT_EQ(remat([](const Var& h) { return h; }, constant).value().raw(), x.raw());
  EXPECT_FALSE(remat([](const Var& h) { return tanh(h); }, constant).requires_grad());
  const Layer layer = dense(3);
  const auto through = [&](const Params& p, const Var& h) {
    const Var y = layer(p, h);
    return remat([](const Var& same) { return same.reshape({6}); }, remat([](const Var& same) { return same; }, y));
  };
  EXPECT_EQ(gradients(layer, x, through),
            gradients(layer, x, [&](const Params& p, const Var& h) { return layer(p, h); }));
}

TEST_P(RematTest, ParametersOfTheStateGetTheirGradients) {
  const Layer model = block();
  const auto gradients_of = [&](bool again, Precision precision) {
    TrainState state = TrainState::create(
        model, optim::sgd(0.1),
        {.inputs = {{"x", DType::f32, {5, 12}}}, .seed = 3, .context = device(), .precision = precision});
    const Var x(images({5, 12}), state.stream());
    (void)state.value_and_grad([&](TrainState& s) {
      const auto part = [&](const Var& h) { return model(s.params(), h); };
      return mean(square(again ? remat(part, x) : part(x)));
    });
    return to_host<float>(state.collection("grads").flat(), state.stream());
  };
  std::vector<Precision> precisions = test::other_precisions(device());
  precisions.push_back(Precision::f32);
  for (const Precision precision : precisions) {
    const std::vector<float> wanted = gradients_of(false, precision);
    EXPECT_NE(wanted, std::vector<float>(wanted.size()));
    EXPECT_EQ(gradients_of(true, precision), wanted);
  }
}

TEST_P(RematTest, RecomputationWithOtherParametersIsAnError) {
  const Layer layer = dense(12);
  const Tensor x = images({5, 12});
  const Leaves first = leaves_of(layer, x.shape()), second = leaves_of(layer, x.shape());
  const Params params = first.params(stream()), others = second.params(stream());
  const auto error_of = [&](const std::function<Var(const Var&)>& again) {
    int calls = 0;
    const Var y = remat([&](const Var& h) { return calls++ == 0 ? layer(params, h) : again(h); }, Var(x, stream()));
    test::expect_error(ErrorCode::invalid_argument, {"remat", "called again", "expected the same 2"},
                       [&] { backward(mean(y)); });
    EXPECT_EQ(calls, 2);
  };
  error_of([&](const Var& h) { return layer(others, h); });
  error_of([&](const Var& h) { return dense(h, params["kernel"], stop_gradient(params["bias"])); });
  error_of([&](const Var& h) { return stop_gradient(layer(params, h)); });
  error_of([&](const Var&) { return params["bias"]; });
}

TEST_P(RematTest, RecordedStepNeedsLessMemory) {
  const test::ArenaSetting arena("1");
  const Tensor x = images({64, 12});
  const auto memory = [&](const Layer& part) {
    const Layer model = sequential(part, part, part, part, part, part);
    const Leaves leaves = leaves_of(model, x.shape());
    const Graph graph =
        Graph::record(stream(), [&] { backward(mean(square(model(leaves.params(stream()), Var(x, stream()))))); });
    graph.replay(stream());
    const auto found = gradients(leaves);
    return std::pair(graph.program().min_memory(), found);
  };
  const auto [kept, wanted] = memory(block());
  const auto [again, found] = memory(remat(block()));
  EXPECT_EQ(found, wanted);
  EXPECT_LT(static_cast<double>(again), 0.5 * static_cast<double>(kept));
}

TEST_P(RematTest, LayerKeepsItsNames) {
  const auto plain = test::leaves_of(sequential(dense(3), dense(2)), {4, 5}, stream());
  const auto marked = test::leaves_of(sequential(remat(dense(3)), remat(dense(2))), {4, 5}, stream());
  ASSERT_EQ(marked.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(marked[i].name, plain[i].name);
}

TEST_P(RematTest, SharedLayerStaysTheSameLayer) {
  const Layer layer = shared(dense(5)), again = remat(layer), of_remat = shared(remat(dense(5)));
  const auto names = [&](const Layer& model) {
    std::vector<std::string> found;
    for (const DeclaredLeaf& leaf : test::leaves_of(model, {4, 5}, stream())) found.push_back(leaf.name);
    return found;
  };
  const std::vector<std::string> one{"dense0/kernel", "dense0/bias"};
  for (const auto& [first, second] : std::vector<std::pair<Layer, Layer>>{{layer, layer},
                                                                          {layer, again},
                                                                          {again, layer},
                                                                          {again, remat(layer)},
                                                                          {again, remat(again)},
                                                                          {layer, shared(layer)},
                                                                          {shared(again), layer},
                                                                          {of_remat, of_remat}}) {
    EXPECT_EQ(names(sequential(first, tanh(), second)), one);
  }
  EXPECT_EQ(names(sequential(layer, shared(dense(5)), remat(shared(dense(5))))).size(), 6u);
  const Tensor x = images({4, 5});
  const Layer plain = sequential(layer, tanh(), layer), mixed = sequential(again, tanh(), layer);
  EXPECT_EQ(gradients(plain, x, [&](const Params& p, const Var& h) { return mixed(p, h); }),
            gradients(plain, x, [&](const Params& p, const Var& h) { return plain(p, h); }));
}

}  // namespace
}  // namespace giro::nn
