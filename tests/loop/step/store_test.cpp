// A value that was read before a leaf is stored stays what it was, in recorded and in eager steps.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/slice.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/snapshot.h>

#include "tests/kernels/op_test.h"

namespace giro {
namespace {

using Floats = std::vector<float>;

class StoreTest : public test::OpTest {
 protected:
  State made() const {
    State state(DeviceContext(stream().device()));
    state.add("data", {{"w", DType::f32, {3}}, {"old", DType::f32, {3}}, {"part", DType::f32, {2}}});
    from_host(state.at("data/w"), Floats{1, 2, 3}, state.stream());
    return state;
  }
  static nn::Var leaf(const State& state, const std::string& path) { return {state.at(path), state.stream()}; }
  static Floats read(const State& state, const std::string& path) {
    return to_host<float>(state.at(path), state.stream());
  }
};

TEST_P(StoreTest, AValueKeepsTheOldNumbers) {
  const auto body = [](State& state, const Batch&) {
    const nn::Var before = leaf(state, "data/w");
    const nn::Var part = slice(before, {.axis = 0, .begin = 1}), whole = before.reshape({3, 1});
    set(state, "data/w", before * 2);
    set(state, "data/old", whole.reshape({3}) + 0.5);
    set(state, "data/w", leaf(state, "data/w") + 1);
    set(state, "data/part", part);
    return Logs();
  };
  for (const bool recorded : {false, true}) {
    State state = made();
    const auto run = [&](auto step) {
      for (int call = 0; call < 3; ++call) {
        const Floats w = read(state, "data/w");
        step(state, Batch());
        EXPECT_EQ(read(state, "data/w"), (Floats{w[0] * 2 + 1, w[1] * 2 + 1, w[2] * 2 + 1}));
        EXPECT_EQ(read(state, "data/old"), (Floats{w[0] + 0.5f, w[1] + 0.5f, w[2] + 0.5f}));
        EXPECT_EQ(read(state, "data/part"), (Floats{w[1], w[2]}));
      }
    };
    recorded ? run(jit(body)) : run(eager(body));
  }
}

// A value that is read after the store costs a copy: here its own, and one of the new value, which must wait for it.
TEST_P(StoreTest, AProgramNamesTheCopy) {
  const auto ops_of = [&](bool reads) {
    State state = made();
    const auto step = jit([reads](State& s, const Batch&) {
      const nn::Var before = leaf(s, "data/w");
      set(s, "data/w", before * 2);
      if (reads) set(s, "data/old", before);
      return Logs();
    });
    const Program program = step.program(state, Batch());
    std::vector<std::string> ops;
    for (const Program::Node& node : program.nodes()) ops.push_back(node.op);
    return ops;
  };
  const std::vector<std::string> without = ops_of(false), with = ops_of(true);
  EXPECT_EQ(std::ranges::count(without, "copy"), 0);
  EXPECT_EQ(std::ranges::count(with, "copy"), 2);
}

TEST_P(StoreTest, AValueFromOutsideSurvivesARecordedStep) {
  State state = made();
  const auto step = jit([](State& s, const Batch&) {
    set(s, "data/w", leaf(s, "data/w") * 2);
    return Logs();
  });
  step(state, Batch());
  const nn::Var before = leaf(state, "data/w"), again = leaf(state, "data/w");
  step(state, Batch());
  step(state, Batch());
  EXPECT_EQ(to_host<float>(before.value(), state.stream()), (Floats{2, 4, 6}));
  EXPECT_EQ(before.value().raw(), again.value().raw());
  EXPECT_EQ(read(state, "data/w"), (Floats{8, 16, 24}));
  EXPECT_EQ(to_host<float>((before + leaf(state, "data/w")).value(), state.stream()), (Floats{10, 20, 30}));
}

TEST_P(StoreTest, ParametersKeepTheirNumbersThroughAnUpdate) {
  const nn::Layer model = nn::dense(2);
  TrainState state = TrainState::create(
      model, optim::sgd(0.5), {.inputs = {{"x", DType::f32, {1, 3}}}, .context = DeviceContext(stream().device())});
  const nn::Params before = state.params();
  const Floats kernel = read(state, "params/kernel");
  const nn::Var x = nn::constant(HostArray(Floats{1, 2, 3}, {1, 3}), state.stream());
  (void)state.value_and_grad([&](const nn::Params& params) { return sum(square(model(params, x))); });
  state.apply_gradients();
  EXPECT_NE(read(state, "params/kernel"), kernel);
  EXPECT_EQ(to_host<float>(before["kernel"].value(), state.stream()), kernel);
}

// Whichever call stores the leaf, and even if only a constant made of the value is left.
TEST_P(StoreTest, AValueKeepsTheOldNumbersWhateverStores) {
  State state = made();
  const Snapshot snapshot(state);
  const std::vector<std::function<void()>> stores{
      [&] { set(state, "data/w", leaf(state, "data/w") * 2); },
      [&] { snapshot.write_back(state); },
      [&] {
        from_host(state.at("data/w"), Floats{7, 8, 9}, state.stream());
      },
      [&] { state.assign(made()); },
      [&] { copy(state.at("data/w"), state.at("data/old"), state.stream()); },
  };
  for (const auto& store : stores) {
    const Floats before = read(state, "data/w");
    std::optional<nn::Var> value = leaf(state, "data/w");
    store();
    EXPECT_NE(read(state, "data/w"), before);
    const nn::Var constant = stop_gradient(*value);
    value.reset();
    const nn::Var other = leaf(state, "data/old") * 3;  // would take memory that nobody holds
    EXPECT_EQ(to_host<float>(constant.value(), state.stream()), before);
  }
}

TEST_P(StoreTest, InitialValuesAreAStore) {
  TrainState state =
      TrainState::create(nn::dense(2), optim::sgd(0.5),
                         {.inputs = {{"x", DType::f32, {1, 3}}}, .context = DeviceContext(stream().device())});
  from_host(state.at("params/kernel"), Floats(6, 1), state.stream());
  const nn::Params before = state.params();
  state.reset("params");
  EXPECT_EQ(to_host<float>(before["kernel"].value(), state.stream()), Floats(6, 1));
}

TEST_P(StoreTest, AReplayWithinARecordingIsAStore) {
  State state = made();
  const Graph doubled = Graph::record(state.stream(), [&] { set(state, "data/w", leaf(state, "data/w") * 2); });
  const Graph outer = Graph::record(state.stream(), [&] {
    const nn::Var before = leaf(state, "data/w");
    doubled.replay(state.stream());
    set(state, "data/old", before);
  });
  outer.replay(state.stream());
  EXPECT_EQ(read(state, "data/w"), (Floats{2, 4, 6}));
  EXPECT_EQ(read(state, "data/old"), (Floats{1, 2, 3}));
}

// What is stored is computed from memory that overlaps the leaf.
TEST_P(StoreTest, PartsOfOneCollectionMayOverlap) {
  State state(DeviceContext(stream().device()));
  const Tensor flat = state.add("data", {{"", DType::f32, {16}}}).flat();
  const auto body = [flat](State& s, const Batch&) {
    copy(flat.rows(1, 9), (2 * nn::Var(flat.rows(0, 8), s.stream())).value(), s.stream());
    return Logs();
  };
  Floats expected(16);
  for (std::size_t i = 0; i < 16; ++i) expected[i] = static_cast<float>(i);
  from_host(flat, expected, state.stream());
  jit(body)(state, Batch());
  for (std::size_t i = 8; i > 0; --i) expected[i] = 2 * expected[i - 1];
  EXPECT_EQ(to_host<float>(flat, state.stream()), expected);
}

TEST_P(StoreTest, AValueMayOutliveItsState) {
  const DeviceContext context(stream().device());
  std::vector<nn::Var> values;
  for (int i = 0; i < 3; ++i) {
    State state(context);
    state.add("data", {{"w", DType::f32, {100'000}}});
    values.push_back(leaf(state, "data/w"));
    set(state, "data/w", leaf(state, "data/w") + 1);
    values.push_back(leaf(state, "data/w"));
  }
  EXPECT_EQ(to_host<float>(values[0].value(), context.stream()).front(), 0);
}

TEST_P(StoreTest, RejectsWhatDoesNotFit) {
  State state = made();
  const nn::Var w = leaf(state, "data/w");
  test::expect_error(ErrorCode::not_found, {"data/v", "data/w"}, [&] { set(state, "data/v", w); });
  test::expect_error(ErrorCode::shape_mismatch, {"set", "'data/part'", "f32(2,)", "f32(3,)"},
                     [&] { set(state, "data/part", w); });
  test::expect_error(ErrorCode::dtype_mismatch, {"set", "'data/w'", "f32(3,)", "i32(3,)"},
                     [&] { set(state, "data/w", cast(w, DType::i32)); });
  test::expect_error(ErrorCode::invalid_argument, {"set", "'data/w'", "another stream"},
                     [&] { set(state, "data/w", nn::Var(tensor({3}), stream())); });
  EXPECT_EQ(read(state, "data/w"), (Floats{1, 2, 3}));
}

INSTANTIATE_TEST_SUITE_P(Devices, StoreTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
