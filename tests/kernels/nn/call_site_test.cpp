// Errors and nodes name a line of the program that uses giro, never one of giro's own.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <source_location>
#include <string>
#include <vector>

#include <giro/kernels/nn/call.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/metrics.h>
#include <giro/kernels/nn/recurrent.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "tests/support/expect_error.h"

namespace giro::nn {
namespace {

// The call site in an error's message: "FILE:LINE".
template <class F>
std::string called_at(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string message = error.what(), called = " (called at ";
    const std::size_t begin = message.find(called);
    if (begin == message.npos || !message.ends_with(')')) return "nowhere: " + message;
    const std::string at = message.substr(begin + called.size());
    return at.substr(0, at.size() - 1);
  }
  return "no error";
}
std::string line(int number) { return fmt::format("{}:{}", std::source_location::current().file_name(), number); }

class CallSiteTest : public testing::Test {
 protected:
  Var constant(const Shape& shape) {
    memory_.push_back(std::vector<float>(static_cast<std::size_t>(shape.count()) + 1));
    return Var(Tensor(memory_.back().data(), DType::f32, shape, Device::cpu()), stream_);
  }
  Stream stream_{Device::cpu()};
  std::vector<std::vector<float>> memory_;
};

TEST_F(CallSiteTest, OpNamesTheLineOfItsCall) {
  const Var a = constant({2, 3}), b = constant({3, 2}), bytes = Var(a.value().reshape({6}), stream_);
  EXPECT_EQ(called_at([&] { dense(a, a, Var()); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { matmul(a, a); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { einsum("ij,jk->ik", {a, a}); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { conv1d(a, a, Var(), {}); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { conv2d_transpose(a, a, Var(), {}); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { nn::add(a, b); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { relu(constant({})).reshape({7}); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { average(a, constant({5})); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { accuracy(a, b); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { call("mine", {}, {a}, {}); }), line(__LINE__));
}

TEST_F(CallSiteTest, OperatorNamesItsLine) {
  const Var a = constant({2, 3}), b = constant({3, 2});
  EXPECT_EQ(called_at([&] { (void)(a + b); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { (void)(2.0 * a - b); }), line(__LINE__));
  const auto product = [&] {
    const Var c = a * 2.0;
    (void)(c * b);
  };
  EXPECT_EQ(called_at(product), line(__LINE__ - 2));
}

// Even after an error, no line of an earlier call is left.
TEST_F(CallSiteTest, ErrorsOutsideCallsNameNoLine) {
  const Var a = constant({2, 3}), b = constant({3, 2});
  EXPECT_EQ(called_at([&] { (void)(a + b); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { throw Error(ErrorCode::io, "elsewhere"); }), "nowhere: elsewhere");
}

// A user-defined layer with an inner layer.
struct Mine {
  Var operator()(Scope& s, const Var& x) const {
    const Var y = relu(x);
    return inner ? (*inner)(s, y) : y + x.reshape({x.shape().count()});
  }
  static constexpr int kSum = __LINE__ - 2, kInner = __LINE__ - 2;
  std::shared_ptr<const Layer> inner = nullptr;
};

TEST_F(CallSiteTest, LayerNamesTheCallOfTheModelOrTheUsersLineWithinIt) {
  const Params params({{"dense0/kernel", constant({4, 2})}, {"dense0/bias", constant({2})}}, stream_);
  const Layer model = sequential(flatten(), scale(2), dense(2)), mine = sequential(relu(), Mine());
  EXPECT_EQ(called_at([&] { model(params, constant({2, 5})); }), line(__LINE__));
  EXPECT_EQ(called_at([&] { mine(params, constant({2, 5})); }), line(Mine::kSum));
  const Layer nested = sequential(Mine{std::make_shared<const Layer>(model)});
  EXPECT_EQ(called_at([&] { nested(params, constant({2, 5})); }), line(Mine::kInner));
}

// A user-defined layer whose parameter has another shape in the state.
struct Scaled {
  Var operator()(Scope& s, const Var& x) const { return x * s.param("scale", {7}, ones()); }
  static constexpr int kParam = __LINE__ - 1;
};

TEST_F(CallSiteTest, LeafOfAnotherShapeNamesTheLineThatRequestsIt) {
  const Params params({{"scale", constant({5})}, {"kernel", constant({1})}}, stream_);
  EXPECT_EQ(called_at([&] { Layer("scaled", Scaled())(params, constant({2, 5})); }), line(Scaled::kParam));
  const Layer cell("cell", [](Scope& s, const Var& x) { return LstmCell{5}(s, {x, x}, x)[0]; });
  EXPECT_EQ(called_at([&] { cell(params, constant({2, 5})); }), line(__LINE__));
}

TEST_F(CallSiteTest, BackwardPassNamesTheLineOfTheForwardPass) {
  const Layer model = dense(2);
  TrainState state =
      TrainState::create(model, optim::sgd(0.1), {.inputs = {{"x", DType::f32, {3, 4}}}, .context = Device::cpu()});
  const Var x(constant({3, 4}).value(), state.stream());
  int there = 0;
  const auto loss = [&](const Params& params) {
    const Var y = model(params, x);
    there = __LINE__ + 1;
    const Var z = call("mine", {.shape = y.shape()}, {y},
                       {.cpu = [](auto&, auto&) {}, .vjp = [](auto&, auto& dy, auto&) { return sum(dy); }});
    return mean(z);
  };
  const std::string found = called_at([&] { state.value_and_grad(loss); });
  EXPECT_EQ(found, line(there));
  const auto no_scalar = [&](const Params& params) { return model(params, x); };
  EXPECT_EQ(called_at([&] { state.value_and_grad(no_scalar); }), line(__LINE__));
  const auto of_part = [&](const Params& params, int) { return mean(model(params, x)); };
  EXPECT_EQ(called_at([&] { state.value_and_grad(0, of_part); }), line(__LINE__));
}

TEST_F(CallSiteTest, NodeKnowsItsLine) {
  const Layer model = dense(2);
  TrainState state =
      TrainState::create(model, optim::sgd(0.1), {.inputs = {{"x", DType::f32, {3, 4}}}, .context = Device::cpu()});
  const Var x = constant({3, 4});
  unsigned product = 0, square = 0, update = 0;
  const Graph graph = Graph::record(state.stream(), [&] {
    state.value_and_grad([&](const Params& params) {
      product = __LINE__ + 1;
      const Var y = model(params, Var(x.value(), state.stream()));
      square = __LINE__ + 1;
      return mean(y * y);
    });
    update = __LINE__ + 1;
    state.apply_gradients();
  });
  const auto line_of = [&](const std::string& op) {
    for (const Program::Node& node : graph.program().nodes()) {
      if (node.op == op) return node.where.line();
    }
    return 0u;
  };
  EXPECT_EQ(line_of("dense"), product);
  EXPECT_EQ(line_of("dense_backward"), product);
  EXPECT_EQ(line_of("multiply"), square);
  EXPECT_EQ(line_of("update"), update);
  EXPECT_NE(graph.program().describe(0).find(line(static_cast<int>(product))), std::string::npos)
      << graph.program().describe(0);
}

}  // namespace
}  // namespace giro::nn
