// A recorded step does what its function would do, whatever happens to the other states that it uses.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/snapshot.h>

#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/sanitized.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

// Two models that train each other, and the actions that may happen to them.
class Pair {
 public:
  enum class Mode { recorded, eager };
  static constexpr int kSteps = 7, kActions = 9;

  Pair(Device device, Mode mode) : device_(device), a_(create(1)) {
    b_ = std::make_unique<TrainState>(create(2));
    c_ = create(3);
    const auto step = [&](auto body) {
      steps_.push_back(mode == Mode::recorded ? jit(std::move(body)) : eager(std::move(body)));
    };
    // The other state's parameters as constants.
    step([this](TrainState& a, const Batch&) {
      const auto loss = a.value_and_grad(
          [&](const nn::Params& params) { return mean(square(model_(params, x(a)) - model_(b_->params(), x(a)))); });
      a.apply_gradients();
      return logs().add_metric("loss", loss);
    });
    // Both are trained, as in a GAN.
    step([this](TrainState& a, const Batch&) {
      const auto first = b_->value_and_grad([&](const nn::Params& params) {
        return mean(square(model_(params, nn::stop_gradient(model_(a.params(), x(a)))) + 0.5));
      });
      b_->apply_gradients();
      const auto second = a.value_and_grad(
          [&](const nn::Params& params) { return mean(square(model_(b_->params(), model_(params, x(a))) - 1.0)); });
      a.apply_gradients();
      return logs().add_metric("loss", second).add_metric("first", first);
    });
    // The other state follows this one.
    step([this](TrainState& a, const Batch&) {
      const Tensor to = b_->collection("params").flat(), from = a.collection("params").flat();
      scale(to, to, 0.75, a.stream());
      axpy_quarter(to, from, a.stream());
      return logs().add_metric("b", nn::sum(nn::Var(to, a.stream())));
    });
    // A clone that lives as long as the call.
    step([this](TrainState& a, const Batch&) {
      const TrainState before = b_->clone();
      axpy_quarter(b_->collection("params").flat(), a.collection("params").flat(), a.stream());
      State scratch(a.context());
      const Tensor sum = scratch.add("sum", {{"", DType::f32, {}}}).leaves().front().value;
      giro::sum(sum, before.collection("params").flat(), a.stream());
      return logs().add_metric("sum", nn::Var(sum, a.stream()) * 1.0);
    });
    // The other state is replaced by the step itself,
    step([this](TrainState& a, const Batch&) {
      *b_ = b_->clone();
      axpy_quarter(b_->collection("params").flat(), a.collection("params").flat(), a.stream());
      return Logs();
    });
    // or made anew by it,
    step([this](TrainState& a, const Batch&) {
      b_ = std::make_unique<TrainState>(a.clone());
      scale(b_->collection("params").flat(), b_->collection("params").flat(), 0.5, a.stream());
      return Logs();
    });
    // or changes places with a third.
    step([this](TrainState& a, const Batch&) {
      std::swap(*b_, *c_);
      axpy_quarter(b_->collection("params").flat(), a.collection("params").flat(), a.stream());
      return Logs();
    });
  }

  double step(int i) {
    const Logs logs = steps_[static_cast<std::size_t>(i)](a_, Batch());
    double sum = 0;
    for (std::size_t entry = 0; entry < logs.schema().size(); ++entry) {
      sum += logs.entry_value(logs.schema()[entry].name);
    }
    return sum;
  }

  void act(int i) {
    switch (i) {
      case 0:
        *b_ = b_->clone();
        break;
      case 1:
        b_ = std::make_unique<TrainState>(create(3));
        break;
      case 2:
        std::swap(*b_, *c_);
        break;
      case 3:
        c_ = b_->clone();
        break;
      case 4:
        c_ = create(4);
        break;
      case 5: {
        TrainState moved = std::move(*b_);
        b_ = std::make_unique<TrainState>(std::move(moved));
        break;
      }
      case 6: {
        const Snapshot before(a_);
        b_->assign(a_);
        before.write_back(a_);
        break;
      }
      case 7: {
        TrainState moved = std::move(a_);
        a_ = std::move(moved);
        break;
      }
      default:
        a_ = b_->clone();
    }
  }

  auto bits() const { return std::pair{test::leaf_bytes(a_), test::leaf_bytes(*b_)}; }
  std::size_t num_recordings(int i) const { return steps_[static_cast<std::size_t>(i)].num_recordings(); }

 private:
  TrainState create(std::uint64_t seed) {
    if (context_)
      return TrainState::create(model_, optim::adamw(1e-2),
                                {.inputs = {{"x", DType::f32, {3, 4}}}, .seed = seed, .context = *context_});
    context_.emplace(device_);
    return create(seed);
  }
  nn::Var x(const State& state) const {
    std::vector<float> values;
    for (int i = 0; i < 12; ++i) values.push_back(static_cast<float>(i % 5) / 4 - 0.5f);
    return nn::constant(HostArray(values, {3, 4}), state.stream());
  }
  static void axpy_quarter(const Tensor& to, const Tensor& from, const Stream& stream) {
    const Buffer term = stream.allocate(from.bytes());
    const Tensor quarter(term.data(), DType::f32, from.shape(), from.device());
    scale(quarter, from, 0.25, stream);
    add(to, to, quarter, stream);
  }

  const Device device_;
  std::optional<DeviceContext> context_;
  const nn::Layer model_ = nn::sequential(nn::dense(6), nn::tanh(), nn::dense(4));
  TrainState a_;
  std::unique_ptr<TrainState> b_;
  std::optional<TrainState> c_;
  std::vector<Step<TrainState>> steps_;
};

class SecondStateTest : public test::OpTest {};
INSTANTIATE_TEST_SUITE_P(Devices, SecondStateTest, test::kDevices, test::device_name);

// GIRO_SEQUENCES sets the number of sequences.
TEST_P(SecondStateTest, RandomSequencesGiveTheBitsOfEagerSteps) {
  const char* const wanted = std::getenv("GIRO_SEQUENCES");
  const int count = wanted != nullptr ? std::atoi(wanted) : device().is_cuda() ? 10 : 40;
  for (int seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(seed);
    Pair recorded(device(), Pair::Mode::recorded), plain(device(), Pair::Mode::recorded),
        eager(device(), Pair::Mode::eager);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int i = 0; i < 16; ++i) {
      if (random() % 2 == 0) {
        const int action = static_cast<int>(random() % Pair::kActions);
        SCOPED_TRACE(action);
        for (Pair* pair : {&recorded, &plain, &eager}) pair->act(action);
        continue;
      }
      const int step = static_cast<int>(random() % Pair::kSteps);
      SCOPED_TRACE(step);
      const double wanted_logs = eager.step(step);
      ASSERT_EQ(recorded.step(step), wanted_logs);
      const test::RewriteSetting no_rules("0");
      ASSERT_EQ(plain.step(step), wanted_logs);
    }
    ASSERT_TRUE(recorded.bits() == eager.bits());
    ASSERT_TRUE(plain.bits() == eager.bits());
  }
}

TEST_P(SecondStateTest, RecordsAgainOnlyIfTheOtherStateChanges) {
  Pair pair(device(), Pair::Mode::recorded);
  for (int step = 0; step < 4; ++step) {
    for (int call = 0; call < 3; ++call) pair.step(step);
    EXPECT_EQ(pair.num_recordings(step), 1u) << step;
    pair.act(3);  // a clone of the other state changes nothing
    pair.step(step);
    pair.act(6);  // nor do other values
    pair.step(step);
    EXPECT_EQ(pair.num_recordings(step), 1u) << step;
  }
}

TEST_P(SecondStateTest, IsRecordedOncePerAddressOfTheOtherState) {
  State a(device());
  a.add("x", {{"", DType::f32, {2}}});
  std::optional<State> b = a.clone();
  int bodies = 0;
  const auto step = jit([&](State& state, const Batch&) {
    ++bodies;
    add(b->at("x"), b->at("x"), state.at("x"), state.stream());
    return Logs();
  });
  fill(a.at("x"), 1, a.stream());
  for (int i = 0; i < 3; ++i) step(a, Batch());
  EXPECT_EQ(bodies, 1);
  State moved = std::move(*b);
  b.emplace(moved.clone());
  for (int i = 0; i < 3; ++i) step(a, Batch());
  EXPECT_EQ(bodies, 2);
  EXPECT_EQ(to_host<float>(moved.at("x"), a.stream()).front(), 3);
  EXPECT_EQ(to_host<float>(b->at("x"), a.stream()).front(), 6);
  moved = std::move(*b);
  b.emplace(std::move(moved));  // back in its old place
  step(a, Batch());
  EXPECT_EQ(bodies, 2);
  EXPECT_EQ(step.num_recordings(), 1u);
}

TEST_P(SecondStateTest, MayBeReplacedBetweenStepsOfALoop) {
  const auto train = [&](bool recorded) {
    State a(device());
    a.add("x", {{"", DType::f32, {2}}});
    State b = a.clone();
    fill(a.at("x"), 1, a.stream());
    const auto body = [&](State& state, const Batch&) {
      add(b.at("x"), b.at("x"), state.at("x"), state.stream());
      return logs().add_metric("b", nn::sum(nn::Var(b.at("x"), state.stream())));
    };
    const auto replace = [&](State& state) {
      b = b.clone();
      scale(b.at("x"), b.at("x"), 0.5, state.stream());
    };
    const Dataset batches = test::image_dataset(20, 2).batch(1);
    const auto result = recorded ? loop(std::move(a), batches, {{every(1), jit(body)}, {every(5), replace}})
                                 : loop(std::move(a), batches, {{every(1), eager(body)}, {every(5), replace}});
    return std::get<0>(result.history.collect("b"));
  };
  EXPECT_EQ(train(true), train(false));
}

TEST_P(SecondStateTest, StateOfAnotherContextIsAnErrorThatNamesIt) {
  State a(device()), b(device());
  a.add("x", {{"", DType::f32, {2}}});
  b.add("target", {{"", DType::f32, {2}}});
  const auto step = jit([&](State& state, const Batch&) {
    copy(b.at("target"), state.at("x"), b.stream());
    return Logs();
  });
  test::expect_invalid({"the state of target", "one device context"}, [&] { step(a, Batch()); });
  const auto assigns = jit([&](State& state, const Batch&) {
    state.assign(a.clone(DeviceContext(device())));
    return Logs();
  });
  test::expect_invalid({"a state that has no leaves yet", "one device context"}, [&] { assigns(a, Batch()); });
}

TEST_P(SecondStateTest, ProfileLeavesBothUnchanged) {
  State a(device());
  a.add("x", {{"", DType::f32, {2}}});
  State b = a.clone();
  fill(a.at("x"), 1, a.stream());
  const auto step = jit([&](State& state, const Batch&) {
    add(b.at("x"), b.at("x"), state.at("x"), state.stream());
    return Logs();
  });
  (void)step.profile(a, Batch());
  EXPECT_EQ(to_host<float>(b.at("x"), b.stream()).front(), 0);
}

// Values from outside the step, and constants.
TEST_P(SecondStateTest, RecordingKeepsTheValuesItUses) {
  State a(device());
  a.add("x", {{"", DType::f32, {3}}});
  const Stream& stream = a.stream();
  std::optional<nn::Var> captured = nn::constant(HostArray(std::vector<float>{1, 2, 3}), stream) * 2.0;
  const auto body = [&](State& state, const Batch&) {
    const nn::Var table = nn::constant(HostArray(std::vector<float>{10, 20, 30}), state.stream());
    copy(state.at("x"), (*captured + table).value(), state.stream());
    return Logs();
  };
  const auto step = jit(body);
  step(a, Batch());
  captured.reset();
  const nn::Var overwrites = nn::constant(HostArray(std::vector<float>(3, -1)), stream) * 3.0;
  fill(a.at("x"), 0, stream);
  step(a, Batch());
  EXPECT_EQ(to_host<float>(a.at("x"), stream), (std::vector<float>{12, 24, 36}));
}

TEST_P(SecondStateTest, ConstantKeepsTheMemoryOfItsSource) {
  State a(device());
  a.add("x", {{"", DType::f32, {3}}});
  const auto body = [](State& state, const Batch&) {
    const Stream& stream = state.stream();
    const auto one = [&](double value) { return nn::constant(HostArray(std::vector<float>(3, 1)), stream) * value; };
    const nn::Var kept(one(5).value(), stream), stopped = nn::stop_gradient(one(7)), tensor(one(9).value());
    const nn::Var overwrites = one(-1) + one(-2);  // reuses memory that was given back, if any was
    copy(state.at("x"), (kept + stopped + tensor).value(), stream);
    return Logs();
  };
  for (const auto& step : {jit(body), eager(body)}) {
    step(a, Batch());
    EXPECT_EQ(to_host<float>(a.at("x"), a.stream()), std::vector<float>(3, 21));
  }
}

TEST_P(SecondStateTest, RecordingKeepsCopiedAndLoggedValues) {
  State a(device());
  a.add("x", {{"", DType::f32, {3}}});
  const Stream& stream = a.stream();
  std::optional<nn::Var> captured = nn::constant(HostArray(std::vector<float>{1, 2, 3}), stream) * 2.0;
  std::optional<nn::Var> logged = nn::sum(*captured);
  const auto step = jit([&](State& state, const Batch&) {
    copy(state.at("x"), captured->value(), state.stream());
    return logs()
        .add_metric("sum", *logged)
        .add_metric("table", nn::constant(HostArray(std::vector<float>{5}, {}), state.stream()));
  });
  step(a, Batch());
  captured.reset();
  logged.reset();
  const nn::Var overwrites = nn::sum(nn::constant(HostArray(std::vector<float>(3, -1)), stream) * 3.0);
  fill(a.at("x"), 0, stream);
  const Logs again = step(a, Batch());
  EXPECT_EQ(to_host<float>(a.at("x"), stream), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(again.entry_value("sum"), 12);
  EXPECT_EQ(again.entry_value("table"), 5);
}

TEST_P(SecondStateTest, RecordingKeepsTheGradientsOfItsParameters) {
  const Stream stream(device());
  const auto values = [&](float value) { return nn::constant(HostArray(std::vector<float>(3, value)), stream); };
  const nn::Var x = values(2);
  std::optional<nn::Var> grad = values(0) * 1.0;
  const nn::Var seen = *grad;  // shows what is written
  const Graph graph = Graph::record(
      stream, [&] { nn::backward(nn::sum(nn::square(nn::Var::parameter(x.value(), grad->value(), stream)))); });
  grad.reset();
  graph.replay(stream);
  EXPECT_EQ(to_host<float>(seen.value(), stream), std::vector<float>(3, 4));
}

TEST_P(SecondStateTest, TensorOfADestroyedVarIsAnError) {
  const Stream stream(device());
  const Tensor tensor = (nn::constant(HostArray(std::vector<float>(3, 1)), stream) * 2.0).value();
  test::expect_invalid({"f32(3,)", "released", "stop_gradient"}, [&] { nn::Var(tensor, stream); });
}

TEST_P(SecondStateTest, PartOfTheTreeIsReplaced) {
  struct Both : State {
    explicit Both(State first) : State(std::move(first)), part(clone()) { attach("part", part); }
    State part;
  };
  State first(device());
  first.add("x", {{"", DType::f32, {2}}});
  fill(first.at("x"), 1, first.stream());
  Both both(std::move(first));
  const auto step = jit([](State& state, const Batch&) {
    add(state.at("part/x"), state.at("part/x"), state.at("x"), state.stream());
    return Logs();
  });
  for (int i = 0; i < 3; ++i) {
    step(both, Batch());
    both.part = both.part.clone();
    both.attach("part", both.part);
  }
  step(both, Batch());
  EXPECT_EQ(to_host<float>(both.part.at("x"), both.stream()).front(), 5);
}

}  // namespace
}  // namespace giro
