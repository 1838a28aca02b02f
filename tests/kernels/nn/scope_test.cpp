#include <giro/kernels/nn/scope.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/parameter_overview.h>
#include <giro/kernels/nn/recurrent.h>
#include <giro/kernels/nn/remat.h>
#include <giro/kernels/nn/slice.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/step/step.h>

#include "tests/kernels/nn/leaves_of.h"
#include "tests/kernels/op_test.h"
#include "tests/support/expect_error.h"

namespace giro::nn {
namespace {

using Names = std::vector<std::string>;
using Floats = std::vector<float>;

Names names_of(const Layer& layer, const Shape& input) {
  Names names;
  for (const DeclaredLeaf& leaf : test::leaves_of(layer, input)) names.push_back(leaf.collection + "/" + leaf.name);
  return names;
}

// Counts its calls, and keeps a running mean of its inputs.
struct Watch {
  std::string name() const { return "watch"; }
  Var operator()(Scope& s, const Var& x) const {
    const Variable seen = s.variable("stats", "mean", {}, zeros());
    const Variable calls = s.variable("stats", "calls", {}, ones(), DType::i64);
    if (s.training()) {
      seen.set(0.5 * seen.value() + 0.5 * mean(x));
      calls.set(calls.value() + 1);
    }
    return x * s.param("factor", {}, ones());
  }
};

class ScopeTest : public test::OpTest {
 protected:
  template <class Model>
  TrainState create(const Model& model, const std::vector<LeafSpec>& inputs = {{"x", DType::f32, {2, 3}}},
                    std::uint64_t seed = 0) {
    return TrainState::create(model, optim::sgd(0.1), {.inputs = inputs, .seed = seed, .context = device()});
  }
  Var on_device(const TrainState& state, const Shape& shape, std::vector<float> values) {
    kept_.push_back(constant(HostArray(std::move(values), shape), state.stream()));
    return kept_.back();
  }
  std::vector<float> floats(const TrainState& state, const Var& x) { return to_host<float>(x.value(), state.stream()); }

  // Returns the batch of every step.
  Batch train_three_steps(TrainState& state, const Layer& model) {
    const auto step = jit([&](TrainState& s, const Batch& batch) {
      const Var loss = s.value_and_grad([&](const Params& params) { return mean(square(model(params, batch["x"]))); });
      s.apply_gradients();
      return logs().add_metric("loss", loss);
    });
    const Batch batch({{"x", on_device(state, {2, 3}, {1, 2, 3, 4, 5, 9}).value()}}, state.stream());
    for (int i = 0; i < 3; ++i) step(state, batch);
    return batch;
  }

 private:
  std::vector<Var> kept_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ScopeTest, test::kDevices, test::device_name);

TEST(Scope, ModelIsTracedOnceWithoutMemoryForItsLeaves) {
  // A petabyte of parameters: nothing is allocated or computed.
  const std::vector<DeclaredLeaf> leaves = test::leaves_of(dense(1 << 20), {1 << 10, 1 << 28});
  EXPECT_EQ(leaves[0].shape, Shape({1 << 28, 1 << 20}));
  EXPECT_EQ(names_of(sequential(dense(3), Watch(), Watch()), {2, 3}),
            (Names{"params/dense0/kernel", "params/dense0/bias", "stats/watch0/mean", "stats/watch0/calls",
                   "params/watch0/factor", "stats/watch1/mean", "stats/watch1/calls", "params/watch1/factor"}));
}

TEST(Scope, CallsNumberTheirLayers) {
  struct Block {
    Var operator()(Scope& s, const Var& x) const { return dense(3)(s, dense(3)(s, x)) + x; }
  };
  const Layer model("model", [](Scope& s, const Var& x) {
    Var y = x;
    for (int i = 0; i < 2; ++i) y = s.call("block", Block(), y);
    const Layer twice = shared(dense(3, {.use_bias = false}));
    return twice(s, dense(3, {.use_bias = false})(s, twice(s, y)));
  });
  EXPECT_EQ(names_of(model, {2, 3}),
            (Names{"params/block0/dense0/kernel", "params/block0/dense0/bias", "params/block0/dense1/kernel",
                   "params/block0/dense1/bias", "params/block1/dense0/kernel", "params/block1/dense0/bias",
                   "params/block1/dense1/kernel", "params/block1/dense1/bias", "params/dense0/kernel",
                   "params/dense1/kernel"}));
}

// C++ may evaluate the operands of an operator and the arguments of a call in any order; g++ begins with the last one.
TEST(Scope, NumbersFollowTheTextInAnExpression) {
  const auto shapes_of = [](const Layer& model) {
    std::map<std::string, Shape> shapes;
    for (const DeclaredLeaf& leaf : test::leaves_of(model, {2, 4})) shapes.emplace(leaf.name, leaf.shape);
    return shapes;
  };
  const auto layer = [](std::int64_t features) { return dense(features, {.use_bias = false}); };
  using Shapes = std::map<std::string, Shape>;
  const Layer operands("operands", [=](Scope& s, const Var& x) {
    return layer(3)(s, layer(5)(s, x)) * silu(layer(3)(s, silu(layer(6)(s, x)))) + layer(1)(s, x);
  });
  EXPECT_EQ(shapes_of(operands), (Shapes{{"dense0/kernel", {4, 5}},
                                         {"dense1/kernel", {5, 3}},
                                         {"dense2/kernel", {4, 6}},
                                         {"dense3/kernel", {6, 3}},
                                         {"dense4/kernel", {4, 1}}}));
  const Layer arguments("arguments", [=](Scope& s, const Var& x) {
    return layer(7)(s, concatenate({layer(2)(s, x), layer(3)(s, x)}, 1) * (layer(5)(s, x) + 1));
  });
  EXPECT_EQ(
      shapes_of(arguments),
      (Shapes{
          {"dense0/kernel", {4, 2}}, {"dense1/kernel", {4, 3}}, {"dense2/kernel", {4, 5}}, {"dense3/kernel", {5, 7}}}));
  const auto block = [=](Scope& s, const Var& x) { return layer(x.shape()[-1] + 1)(s, x) * layer(1)(s, x); };
  const Layer blocks("blocks", [=](Scope& s, const Var& x) {
    Var y = x;
    for (int i = 0; i < 2; ++i) y = s.call("block", block, s.call("block", block, y)) + s.call("row", layer(1), y);
    return y;
  });
  EXPECT_EQ(shapes_of(blocks), (Shapes{{"block0/dense0/kernel", {4, 5}},
                                       {"block0/dense1/kernel", {4, 1}},
                                       {"block1/dense0/kernel", {5, 6}},
                                       {"block1/dense1/kernel", {5, 1}},
                                       {"row0/dense0/kernel", {4, 1}},
                                       {"block2/dense0/kernel", {6, 7}},
                                       {"block2/dense1/kernel", {6, 1}},
                                       {"block3/dense0/kernel", {7, 8}},
                                       {"block3/dense1/kernel", {7, 1}},
                                       {"row1/dense0/kernel", {6, 1}}}));
  const Layer unclear("unclear", [=](Scope& s, const Var& x) {
    const CallPlace first(std::source_location{}), second(std::source_location{});
    const Var y = layer(2)(s, x, first);
    return y * layer(1)(s, x, second);
  });
  test::expect_error(ErrorCode::invalid_argument, {"two calls of 'dense'", "one place"},
                     [&] { (void)shapes_of(unclear); });
}

// As dense(3)(s, dense(5)(s, x)) * dense(2)(s, x) * dense(1)(s, x), by compilers that begin on either side.
TEST(Scope, LeavesDoNotDependOnWhichOperandIsEvaluatedFirst) {
  const auto named = [](bool from_the_right) {
    const Layer model("model", [=](Scope& s, const Var& x) {
      const CallPlace outer(std::source_location::current());
      const CallPlace inner(std::source_location::current());
      const CallPlace middle(std::source_location::current());
      const CallPlace right(std::source_location::current());
      const auto left = [&] { return mean(dense(3)(s, dense(5)(s, x, inner), outer)); };
      const auto others = [&] {
        if (!from_the_right) return mean(dense(2)(s, x, middle)) * mean(dense(1)(s, x, right));
        const Var last = mean(dense(1)(s, x, right));
        return mean(dense(2)(s, x, middle)) * last;
      };
      if (!from_the_right) {
        const Var first = left();
        return first * others();
      }
      const Var last = others();
      return left() * last;
    });
    std::vector<std::pair<std::string, Shape>> leaves;
    for (const DeclaredLeaf& leaf : test::leaves_of(model, {2, 4})) leaves.emplace_back(leaf.name, leaf.shape);
    return leaves;
  };
  const std::vector<std::pair<std::string, Shape>> expected{
      {"dense0/kernel", {4, 5}}, {"dense0/bias", {5}}, {"dense1/kernel", {5, 3}}, {"dense1/bias", {3}},
      {"dense2/kernel", {4, 2}}, {"dense2/bias", {2}}, {"dense3/kernel", {4, 1}}, {"dense3/bias", {1}}};
  EXPECT_EQ(named(false), expected);
  EXPECT_EQ(named(true), expected);
}

// A leaf's initial numbers depend on how many were declared before it.
TEST(Scope, LeavesFollowTheTextInAnExpression) {
  struct Affine {
    Var operator()(Scope& s, const Var& x) const {
      return s.param("a", {4}, ones()) * x + s.param("b", {4}, ones()) * dense(4)(s, x) +
             s.variable("stats", "c", {}, ones()).value();
    }
  };
  EXPECT_EQ(names_of(Layer("affine", Affine()), {2, 4}),
            (Names{"params/a", "params/b", "params/dense0/kernel", "params/dense0/bias", "stats/c"}));
  const Layer cell("cell", [](Scope& s, const Var& x) { return LstmCell{4}(s, {x, x}, x)[0]; });
  EXPECT_EQ(names_of(cell, {2, 4}), (Names{"params/kernel", "params/bias", "params/recurrent_kernel"}));
  // A place that is passed on does not keep later calls waiting.
  const Layer passed_on("passed_on", [](Scope& s, const Var& x) {
    {
      const CallPlace at(std::source_location::current());
      (void)(s.param("a", {4}, ones(), {}, at) + s.param("b", {4}, ones(), {}, at));
    }
    return s.param("c", {4}, ones()) * x + s.param("d", {4}, ones());
  });
  const Names names = names_of(passed_on, {2, 4});
  EXPECT_EQ(Names(names.end() - 2, names.end()), (Names{"params/c", "params/d"}));
}

TEST_P(ScopeTest, ExpressionsAndStatementsTrainAlike) {
  const auto in_one = [](Scope s, const Batch& batch) {
    return (dense(3)(s, batch["x"]) + random_normal(s.key("noise"), {2, 3})) *
           (tanh(dense(3)(s, batch["x"])) + random_normal(s.key("noise"), {2, 3}));
  };
  const auto in_several = [](Scope s, const Batch& batch) {
    const Var left = dense(3)(s, batch["x"]), left_noise = random_normal(s.key("noise"), {2, 3});
    const Var right = tanh(dense(3)(s, batch["x"])), right_noise = random_normal(s.key("noise"), {2, 3});
    return (left + left_noise) * (right + right_noise);
  };
  std::vector<std::vector<float>> losses;
  const auto train = [&](const auto& model) {
    TrainState state = create(model);
    for (const char* name : {"dense0", "dense1"}) {
      const Tensor kernel = state.at(fmt::format("params/{}/kernel", name));
      from_host(kernel, std::vector<float>(9, name[5] == '0' ? 0.25f : -0.5f), state.stream());
    }
    const Batch batch({{"x", on_device(state, {2, 3}, {1, 2, 3, 4, 5, 6}).value()}}, state.stream());
    losses.emplace_back();
    for (int i = 0; i < 2; ++i) {
      const Var loss = state.value_and_grad([&](const Params& params) { return mean(square(model(params, batch))); });
      losses.back().push_back(floats(state, loss).front());
      state.apply_gradients();
    }
  };
  train(in_one);
  train(in_several);
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_P(ScopeTest, FunctionOfSeveralInputsIsAModel) {
  const auto of_two = [](Scope s, const Var& ids, const Var& x) {
    return where(ids == 1, x, 0) * s.param("w", {3}, ones());
  };
  TrainState state = create(of_two, {{"ids", DType::i32, {3}}, {"x", DType::f32, {3}}});
  EXPECT_TRUE(state.contains("params/w"));
  test::expect_error(ErrorCode::invalid_argument, {"2 inputs", "with 1"}, [&] { create(of_two); });

  const auto of_batch = [](Scope s, const Batch& batch) {
    const Var h = dense(2)(s, batch["x"]);
    return std::pair{h, dense(1)(s, h)};
  };
  state = create(of_batch);
  EXPECT_EQ(state.at("params/dense1/kernel").shape(), Shape({2, 1}));
  test::expect_error(ErrorCode::invalid_argument, {"nn::Layer"}, [&] { state.model(); });
  const Batch batch({{"x", on_device(state, {2, 3}, {1, 2, 3, 4, 5, 6}).value()}}, state.stream());
  // Two calls use the same parameters.
  const auto loss = [&](const Params& params) {
    const auto [first, y] = of_batch(params, batch);
    return mean(square(y - of_batch(params, batch).second)) + mean(first);
  };
  EXPECT_FLOAT_EQ(floats(state, state.value_and_grad(loss))[0],
                  floats(state, mean(of_batch(state.params(), batch).first))[0]);
}

TEST_P(ScopeTest, VariableIsWrittenOnlyInTraining) {
  const Layer model = sequential(Watch(), dense(1));
  TrainState state = create(model);
  EXPECT_EQ(to_host<std::int64_t>(state.at("stats/watch0/calls"), state.stream())[0], 1);
  const Batch batch = train_three_steps(state, model);
  (void)model(state.params(), batch["x"]);
  EXPECT_EQ(to_host<std::int64_t>(state.at("stats/watch0/calls"), state.stream())[0], 4);
  EXPECT_EQ(to_host<float>(state.at("stats/watch0/mean"), state.stream())[0], 4 * (1 - 1 / 8.f));
  (void)model(state.params(Mode::train), batch["x"]);
  EXPECT_EQ(to_host<std::int64_t>(state.at("stats/watch0/calls"), state.stream())[0], 5);
  EXPECT_NE(parameter_overview(state, {.prefix = "stats"}).find("watch0/calls"), std::string::npos);

  test::expect_error(ErrorCode::invalid_argument, {"layer 'watch0'", "'stats/watch0/mean'", "evaluation", "training()"},
                     [&] {
                       const Layer writes("watch", [](Scope& s, const Var& x) {
                         s.variable("stats", "mean", {}, zeros()).set(mean(x));
                         return x;
                       });
                       sequential(writes)(state.params(), batch["x"]);
                     });
}

// The gradient is computed with the variable's value at the time of the loss, not with the new one.
TEST_P(ScopeTest, BackwardPassSeesTheOldValue) {
  const auto model = [](Scope s, const Var& x) {
    const Variable carry = s.variable("carry", "h", {3}, ones());
    const Var y = carry.value() * s.param("w", {3}, ones()) * x;
    carry.set(carry.value() * 5);
    return y;
  };
  TrainState state = create(model, {{"x", DType::f32, {3}}});
  const Var x = on_device(state, {3}, {1, 2, 3});
  for (int i = 0; i < 2; ++i) {
    (void)state.value_and_grad([&](const Params& params) { return sum(model(params, x)); });
    const float h = i == 0 ? 1 : 5;
    EXPECT_EQ(to_host<float>(state.at("grads/w"), state.stream()), (std::vector<float>{h, 2 * h, 3 * h}));
  }
  EXPECT_EQ(to_host<float>(state.at("carry/h"), state.stream()), std::vector<float>(3, 25));
}

// Variables are stored one after the other, so a row of one that is set to another is copied first.
TEST_P(ScopeTest, VariableIsSetToARowOfAnother) {
  const auto model = [](Scope s, const Var& x) {
    const Variable all = s.variable("carry", "all", {3, 2}, zeros()),
                   last = s.variable("carry", "last", {1, 2}, zeros());
    last.set(slice(all.value(), {.begin = 2}));
    all.set(concatenate({slice(all.value(), {.begin = 1}), x}));
    return x * s.param("w", {1, 2}, ones());
  };
  TrainState state = create(model, {{"x", DType::f32, {1, 2}}});
  const auto step = jit([&](TrainState& s, const Batch& batch) {
    return logs().add_metric("loss", s.value_and_grad([&](const Params& p) { return sum(model(p, batch["x"])); }));
  });
  for (const float i : {1.f, 2.f, 3.f}) {
    const Batch batch({{"x", on_device(state, {1, 2}, {i, 10 * i}).value()}}, state.stream());
    step(state, batch);
    EXPECT_EQ(to_host<float>(state.at("carry/last"), state.stream()), (std::vector<float>{i - 1, 10 * (i - 1)}));
    const std::vector<float> all = to_host<float>(state.at("carry/all"), state.stream());
    EXPECT_EQ(std::vector<float>(all.begin() + 4, all.end()), (std::vector<float>{i, 10 * i}));
  }
}

TEST_P(ScopeTest, KeysDifferByStepSeedPurposeAndNode) {
  const Layer noise("noise", [](Scope& s, const Var& x) {
    return x * s.param("w", {}, ones()) + random_normal(s.key("noise"), x.shape()) +
           100 * random_normal(s.key("noise"), x.shape()) + 10000 * random_normal(s.key("other"), x.shape());
  });
  const Layer model = sequential(noise, noise);
  const auto drawn = [&](TrainState& state) {
    const Var x = on_device(state, {2, 3}, std::vector<float>(6));
    return floats(state, model(state.params(), x));
  };
  TrainState state = create(model), same = create(model), other = create(model, {{"x", DType::f32, {2, 3}}}, 1);
  const std::vector<float> first = drawn(state);
  EXPECT_EQ(drawn(same), first);
  EXPECT_EQ(drawn(state), first);
  EXPECT_NE(drawn(other), first);
  state.apply_gradients();
  EXPECT_NE(drawn(state), first);
  const Scope root = state.params();
  const auto node = [](const Scope& s, const std::string& purpose) { return s.key(purpose).node; };
  const std::int64_t one = node(root, "dropout"), two = node(root, "dropout"), inner = node(root.child("a"), "dropout");
  EXPECT_NE(one, two);
  EXPECT_NE(one, inner);
  EXPECT_NE(one, node(root, "noise"));
  test::expect_error(ErrorCode::invalid_argument, {"'dropout'", "without"}, [&] {
    const Scope plain = Params({}, state.stream());
    plain.key("dropout");
  });
}

// Within a step each gradient computation gets new keys; outside of a step nothing counts them.
TEST_P(ScopeTest, GradientsOfOneStepDrawOtherNumbers) {
  const Layer model = sequential(dense(4), dropout(0.5));
  for (const bool recorded : {false, true}) {
    TrainState state = create(model);
    const Batch batch({{"x", on_device(state, {2, 3}, {1, 2, 3, 4, 5, 6}).value()}}, state.stream());
    const auto body = [&](TrainState& s, const Batch& b) {
      Logs result;
      const auto loss = [&](const Params& params) { return mean(model(params, b["x"])); };
      for (const char* name : {"a", "b"}) result.add_metric(name, s.value_and_grad(loss));
      const auto parts = s.value_and_grad(2, [&](const Params& params, int) { return loss(params); });
      return result.add_metric("c", parts[0]).add_metric("d", parts[1]).add_metric("e", s.gradients(loss).first);
    };
    const auto step = recorded ? jit(body) : eager(body);
    std::vector<std::set<double>> seen;
    for (int call = 0; call < 2; ++call) {
      const Logs row = step(state, batch);
      seen.emplace_back();
      for (const char* name : {"a", "b", "c", "d", "e"}) seen.back().insert(row.entry_value(name));
    }
    EXPECT_EQ(seen[0].size(), 5u);
    EXPECT_EQ(seen[1], seen[0]);  // the state's step is the same
  }
}

TEST_P(ScopeTest, CollectionStartsOver) {
  const Layer model = sequential(lstm(4, {.carry = true}), Watch(), dense(1));
  TrainState state = create(model, {{"x", DType::f32, {2, 3, 5}}}, 3);
  const Var x = on_device(state, {2, 3, 5}, std::vector<float>(30, 0.5f));
  const auto loss = [&](TrainState& s) {
    return floats(s, s.value_and_grad([&](const Params& params) { return mean(model(params, x)); }))[0];
  };
  const auto kernel = to_host<float>(state.at("params/dense0/kernel"), state.stream());
  const float first = loss(state), second = loss(state);
  EXPECT_NE(second, first);
  state.reset("carry");
  EXPECT_EQ(to_host<float>(state.at("carry/lstm0/h"), state.stream()), std::vector<float>(8));
  EXPECT_EQ(loss(state), first);
  EXPECT_EQ(to_host<std::int64_t>(state.at("stats/watch0/calls"), state.stream())[0], 4);
  state.reset("stats");
  EXPECT_EQ(to_host<std::int64_t>(state.at("stats/watch0/calls"), state.stream())[0], 1);
  state.apply_gradients();
  TrainState copy = state.clone();
  copy.reset("params");
  EXPECT_EQ(to_host<float>(copy.at("params/dense0/kernel"), copy.stream()), kernel);
  EXPECT_NE(to_host<float>(state.at("params/dense0/kernel"), state.stream()), kernel);
  test::expect_error(ErrorCode::not_found, {"reset", "'caries'", "carry"}, [&] { state.reset("caries"); });

  // A step may begin a sequence.
  const Batch batch({{"x", x.value()}}, state.stream());
  const auto sequence = jit([&](TrainState& s, const Batch& b) {
    s.reset("carry");
    return logs().add_metric("sum", sum(model(s.params(Mode::decode), b["x"])));
  });
  EXPECT_EQ(sequence(state, batch).entry_value("sum"), sequence(state, batch).entry_value("sum"));
  const auto impossible = jit([&](TrainState& s, const Batch&) {
    s.reset("params");
    return logs();
  });
  test::expect_error(ErrorCode::invalid_argument, {"stream is recording"}, [&] { impossible(state, batch); });
}

// A rank draws its rows of the numbers that a single rank would draw for the whole batch.
TEST_P(ScopeTest, RanksDrawTheirOwnRows) {
  const Var x = constant(HostArray(std::vector<float>(24, 1), {6, 4}), stream());
  const Key key(17);
  const std::vector<float> whole = to_host<float>(dropout(x, 0.5, key).value(), stream());
  Key second = key;
  second.first_row = 2;
  const Var rows = slice(x, {.begin = 2, .end = 5});
  const std::vector<float> part = to_host<float>(dropout(rows, 0.5, second).value(), stream());
  EXPECT_EQ(part, std::vector<float>(whole.begin() + 8, whole.begin() + 20));
}

TEST_P(ScopeTest, RematSecondRunDrawsTheSameAndWritesNothing) {
  const Layer part = Layer("part", [](Scope& s, const Var& x) {
    const Var h = gelu(dense(3)(s, x));
    return Watch()(s, dense(3)(s, h * (random_uniform(s.key("scale"), h.shape()) + 0.5)));
  });
  const auto train = [&](const Layer& model) {
    TrainState state = create(model);
    train_three_steps(state, model);
    std::vector<std::vector<float>> leaves{to_host<float>(state.collection("params").flat(), state.stream())};
    leaves.push_back(to_host<float>(state.at("stats/part1/mean"), state.stream()));
    EXPECT_EQ(to_host<std::int64_t>(state.at("stats/part1/calls"), state.stream())[0], 4);
    return leaves;
  };
  EXPECT_EQ(train(sequential(remat(part), remat(part), dense(1))), train(sequential(part, part, dense(1))));
}

TEST(Scope, NamesCanBeChosenAndReused) {
  const auto named = [](const char* name) {
    return Layer(name, [](Scope& s, const Var& x) { return x * s.param("w", {}, ones()); });
  };
  const Layer model("model", [&](Scope& s, const Var& x) {
    Var y = named("a1")(s, x);  // a10
    for (int i = 0; i < 12; ++i) y = named("a")(s, y);
    const LstmCell cell{3};
    const Scope part = s.child("cell");
    Scope in_part = part;
    Carry carry{y, y};
    for (int i = 0; i < 3; ++i) carry = cell(in_part, carry, y);
    const Layer again = remat(shared(dense(3, {.use_bias = false})));
    return again(s, again(s, carry[0]));
  });
  Names names = names_of(model, {2, 3});
  EXPECT_EQ(names.size(), 1u + 12 + 3 + 1);
  EXPECT_EQ(std::ranges::count(names, "params/a10/w"), 1);
  EXPECT_EQ(std::ranges::count(names, "params/a12/w"), 1);
}

// Each call of a shared layer, and of a model, draws new numbers.
TEST_P(ScopeTest, CallsDrawOtherNumbers) {
  const Layer noise("noise", [](Scope& s, const Var& x) { return random_uniform(s.key("noise"), x.shape()); });
  const Layer model("model", [&](Scope& s, const Var& x) {
    const Layer again = shared(noise);
    return concatenate({again(s, x), again(s, x)}, 1) * s.param("w", {}, ones());
  });
  TrainState state = create(model);
  const Var x = on_device(state, {2, 3}, Floats(6));
  const Params params = state.params();
  const Floats first = floats(state, model(params, x)), second = floats(state, model(params, x));
  std::set<float> numbers(first.begin(), first.end());
  numbers.insert(second.begin(), second.end());
  EXPECT_EQ(numbers.size(), 24u);
  EXPECT_EQ(floats(state, model(state.params(), x)), first);
}

TEST_P(ScopeTest, VariablesMayBeSwapped) {
  const auto model = [](Scope s, const Var& x) {
    const Variable a = s.variable("v", "a", {}, ones()), b = s.variable("v", "b", {}, zeros());
    const Var before = a.value();
    a.set(b.value());
    b.set(before);
    return x * s.param("w", {}, ones());
  };
  TrainState state = create(model);
  const Var x = on_device(state, {2, 3}, Floats(6, 1));
  const auto step = [&] { (void)state.value_and_grad([&](const Params& params) { return mean(model(params, x)); }); };
  step();
  EXPECT_EQ(to_host<float>(state.collection("v").leaves()[0].value, state.stream())[0], 0);
  EXPECT_EQ(to_host<float>(state.collection("v").leaves()[1].value, state.stream())[0], 1);
  step();
  EXPECT_EQ(to_host<float>(state.collection("v").leaves()[0].value, state.stream())[0], 1);
}

TEST(Scope, InvalidRequests) {
  test::expect_error(ErrorCode::not_found, {"'stat'", "'stats'"}, [] {
    TrainState::create(
        sequential(Watch()), optim::sgd(0.1),
        {.inputs = {{"x", DType::f32, {2, 3}}}, .context = Device::cpu(), .collections = {{"stat", {}}}});
  });
  test::expect_error(ErrorCode::unsupported, {"remat", "2 values"}, [] {
    names_of(remat(parallel(relu(), relu())), {2, 3});
  });
  test::expect_error(ErrorCode::invalid_argument, {"layer 'twice0'", "'twice0/w'", "twice", "s.same()"}, [] {
    names_of(sequential(Layer("twice",
                              [](Scope& s, const Var& x) {
                                s.param("w", {2}, zeros());
                                return x * s.param("w", {3}, zeros());
                              })),
             {2, 3});
  });
  test::expect_error(ErrorCode::invalid_argument, {"takes 2 values, found 1"}, [] {
    names_of(sequential(relu(), [](Scope&, const Var& a, const Var&) { return a; }), {2, 3});
  });
  // A model whose input changes shape later on.
  const Layer model = sequential(relu(), dense(2));
  TrainState state =
      TrainState::create(model, optim::sgd(0.1), {.inputs = {{"x", DType::f32, {2, 3}}}, .context = Device::cpu()});
  const HostArray rows(std::vector<float>(8), {2, 4});
  const Var x(rows.tensor(), state.stream());
  test::expect_error(ErrorCode::shape_mismatch,
                     {"layer 'dense0'", "'dense0/kernel' is f32(3, 2)", "f32(4, 2)", "scope_test"},
                     [&] { model(state.params(), x); });
}

}  // namespace
}  // namespace giro::nn
