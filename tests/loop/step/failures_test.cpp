// The errors of failing steps: out of memory while recording, on a device, and op by op (GIRO_BLOCKING=1).

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <giro/kernels/nn/call.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/transformer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/native_stream.h>

#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/sanitized.h"
#include "tests/support/tensor_ops.h"
#include "tests/support/training.h"
#if GIRO_WITH_CUDA
#include "tests/loop/step/own_kernels.h"
#endif

namespace giro {
namespace {

using test::EnvironmentSetting;

constexpr std::int64_t kFailingRows = 6, kFailingInputs = 4, kFailingClasses = 3;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class FailuresTest : public test::OpTest {
 protected:
  static Dataset rows() {
    std::vector<float> x;
    for (std::int64_t i = 0; i < 5 * kFailingRows * kFailingInputs; ++i) x.push_back(static_cast<float>(i % 7) - 3);
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < 5 * kFailingRows; ++i)
      labels.push_back(static_cast<std::int32_t>(i % kFailingClasses));
    return Dataset({{"x", HostArray(x, {5 * kFailingRows, kFailingInputs})}, {"label", labels}})
        .shuffle(1)
        .repeat()
        .batch(kFailingRows);
  }
  TrainState make_state() const {
    return TrainState::create(model_, optim::adamw(1e-2), {.inputs = rows().spec(), .context = device()});
  }
  // With `own`, the step includes user-defined work.
  auto make_step(bool own) const {
    return jit([this, own](TrainState& s, const Batch& batch) {
      ++bodies_;
      const nn::Var loss = s.value_and_grad([&](const nn::Params& params) {
        nn::Var logits = model_(params, batch["x"]);
        if (own) logits = twice_abs(logits);
        return mean(softmax_cross_entropy(logits, batch["label"]));
      });
      s.apply_gradients();
      return logs().add_metric("loss", loss);
    });
  }
  nn::Var twice_abs(const nn::Var& x) const {
    return nn::call("twice_abs", {.shape = x.shape()}, {x},
                    {.cuda =
                         []([[maybe_unused]] auto& y, [[maybe_unused]] auto& in, [[maybe_unused]] auto* stream) {
#if GIRO_WITH_CUDA
                           test::twice_abs(y.template data<float>(), in[0].template data<float>(), y.count(), stream);
#endif
                         },
                     .cpu =
                         [](auto& y, auto& in) {
                           for (std::int64_t i = 0; i < y.count(); ++i)
                             y.template data<float>()[i] = 2 * std::abs(in[0].template data<float>()[i]);
                         },
                     .vjp = [](auto&, auto& dy, auto&) { return dy; },
                     .is_pure = is_alone_});
  }
  std::vector<double> losses_of_loop(bool own) const {
    const Dataset data = rows().to(device());
    auto result = loop(make_state(), data, {{every(1), make_step(own)}}, {.stop = at(6)});
    std::vector<double> losses = result.history.collect("loss")[0];
    for (const float value : to_host<float>(result.state.collection("params").flat(), result.state.stream()))
      losses.push_back(double{value});
    return losses;
  }
  const nn::Layer model_ = nn::sequential(nn::dense(8, {.activation = Activation::tanh}), nn::dense(kFailingClasses));
  mutable int bodies_ = 0;
  bool is_alone_ = false;  // the user-defined work touches only its arguments
};
INSTANTIATE_TEST_SUITE_P(Devices, FailuresTest, test::kDevices, test::device_name);

#define EXPECT_SAYS(message, words) EXPECT_NE(message.find(words), std::string::npos) << message

TEST_P(FailuresTest, OutOfMemoryNamesTheStepAndTheBytesNeeded) {
  if (test::kSanitized) GTEST_SKIP() << "AddressSanitizer ends a process that asks for so much";
  TrainState state = make_state();
  constexpr std::int64_t kMuch = std::int64_t{1} << 60;
  const int line = __LINE__ + 1;
  const auto step = jit([&](TrainState& s, const Batch& batch) {
    const nn::Var y = model_(s.params(), batch["x"]);
    const nn::Var much = nn::Var::computed(DType::u8, {kMuch}, {y}, nullptr);
    fill(much.value(), 1, s.stream());
    return logs();
  });
  const Dataset data = rows();
  const std::string message = message_of([&] { step(state, *data.begin()); });
  EXPECT_SAYS(message, std::to_string(kMuch));
  EXPECT_SAYS(message, "the step of ");
  EXPECT_SAYS(message, "failures_test.cpp:" + std::to_string(line));
  EXPECT_SAYS(message, "3 temporaries of 456 B in total");
  EXPECT_SAYS(message, "the largest f32 (6, 8) of dense (192 B)");
  EXPECT_SAYS(message, "workspaces of up to ");
  EXPECT_SAYS(message, to_string(device()) + " has ");
  EXPECT_SAYS(message, " free");
  EXPECT_EQ(message.find('\n'), std::string::npos);
  // The stream can still be used.
  EXPECT_EQ(message_of([&] { make_step(false)(state, *data.begin()); }), "no error");
}

// The error comes with the step's logs, and the next steps run as usual.
TEST_P(FailuresTest, IdOutOfRangeIsAnErrorThatNamesTheCall) {
  const nn::Layer model = nn::embedding(7, 4);
  std::vector<std::int32_t> ids(4 * 6, 2);
  ids[6 + 5] = -1, ids[6 + 2] = 7, ids[3 * 6] = 9;
  const Dataset data = Dataset({{"ids", HostArray(ids, {8, 3})}}).repeat().batch(2);
  const auto body = test::training(
      [&](const nn::Params& params, const Batch& batch) { return mean(square(model(params, batch["ids"]))); });
  const auto expect_fault = [](const std::string& message, const std::string& id, int call, const std::string& step) {
    EXPECT_SAYS(message, "embedding: id " + id + " of i32(2, 3) in call " + std::to_string(call) + " of the step of ");
    EXPECT_SAYS(message, step + ", expected at least 0 and below 7 (called at ");
  };
  const auto expect_faults = [&](const auto& step, const std::string& name) {
    const auto create = [&] {
      return TrainState::create(model, optim::sgd(0.1), {.inputs = data.spec(), .context = device()});
    };
    TrainState state = create();
    std::vector<Logs> sent;
    for (auto batch = data.begin(); sent.size() < 4; ++batch) {
      sent.push_back(step(state, *batch));
      EXPECT_FALSE(std::isnan(sent[0].entry_value("loss")));
    }
    expect_fault(message_of([&] { (void)sent[1].entry_value("loss"); }), "7 at position 2", 2, name);
    EXPECT_TRUE(std::isnan(sent[1].entry_value("loss")));
    step(state, *data.begin());
    EXPECT_EQ(message_of([&] { state.stream().synchronize(); }), "no error");
    for (const Dataset& rows : {data, data.to(device())}) {
      const std::string message = message_of([&] { (void)loop(create(), rows, {{every(1), step}}, {.stop = at(20)}); });
      expect_fault(message, "7 at position 2", 2, name);
    }
  };
  const auto name_of_line = [](int line) { return "failures_test.cpp:" + std::to_string(line); };
  expect_faults(jit(body), name_of_line(__LINE__));
  expect_faults(eager(body), name_of_line(__LINE__));
}

TEST_P(FailuresTest, OpByOpGivesTheSameBits) {
  for (const auto& [own, alone] : {std::pair{false, false}, {true, false}, {true, true}}) {
    is_alone_ = alone;
    const std::vector<double> expected = losses_of_loop(own);
    bodies_ = 0;
    const EnvironmentSetting blocking("GIRO_BLOCKING", "1");
    EXPECT_EQ(losses_of_loop(own), expected);
    // If giro cannot run some work again by itself, the step's function runs each time.
    EXPECT_EQ(bodies_, own && !alone ? 7 : 1);
  }
}

TEST(FailuresOfFunctionsTest, OpByOpErrorNamesTheCall) {
  const EnvironmentSetting blocking("GIRO_BLOCKING", "1");
  State state(Device::cpu());
  state.add("x", {{"", DType::f32, {1}}});
  int calls = 0;
  const auto step = jit([&](State& s, const Batch&) {
    submit(s.stream(), [&] {
      if (++calls == 3) throw Error(ErrorCode::device, "it is broken");
    });
    return logs();
  });
  const Batch batch({{"x", Tensor(state.at("x"))}});
  step(state, batch);
  step(state, batch);
  const std::string message = message_of([&] { step(state, batch); });
  EXPECT_SAYS(message, "call 3 of the step of ");
  EXPECT_SAYS(message, "it is broken");
}

// A kernel that writes to unmapped memory. It runs in its own process, since such an error is permanent.
class DeviceErrorsTest : public FailuresTest {
 protected:
  DeviceErrorsTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }  // restarts the program, with its own GPU
  auto faulty_step() const {
    return jit([](TrainState& s, const Batch& batch) {
      const nn::Var y = batch["x"] * 2.0;
      const Tensor beyond(static_cast<char*>(s.at("step").raw()) + (std::size_t{1} << 40), DType::f32, {4}, s.device());
      scale(beyond, y.value().reshape({kFailingRows * kFailingInputs}).rows(0, 4), 1.0, s.stream());
      const nn::Var z = y * 3.0;
      return logs().add_metric("sum", sum(z));
    });
  }
  void call_faulty_step() const {
    TrainState state = make_state();
    const Dataset data = rows();
    const auto step = faulty_step();
    const Logs sent = step(state, *data.begin());
    state.stream().synchronize();
  }
  // Exits the process.
  static void say_message_of(const std::function<void()>& f) {
    std::fprintf(stderr, "%s\n", message_of(f).c_str());
    _exit(0);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceErrorsTest, testing::Values(Device::Kind::cuda), test::device_name);

TEST_P(DeviceErrorsTest, LateErrorNamesTheStepAndHowToFindTheOp) {
  EXPECT_EXIT(say_message_of([&] { call_faulty_step(); }), testing::ExitedWithCode(0),
              "cudaErrorIllegalAddress.*; the step of .*failures_test.cpp:[0-9]+ had completed 0 of 1 calls; "
              "with GIRO_BLOCKING=1 ");
}

TEST_P(DeviceErrorsTest, OpByOpErrorNamesTheOp) {
  const EnvironmentSetting blocking("GIRO_BLOCKING", "1");
  EXPECT_EXIT(say_message_of([&] { call_faulty_step(); }), testing::ExitedWithCode(0),
              "cudaErrorIllegalAddress.*; op [0-9]+ of [0-9]+ in call 1 of the step of .*failures_test.cpp:[0-9]+: "
              "scale.*-> .* f32 .4,.");
}

TEST_P(DeviceErrorsTest, LoopReportsItToo) {
  EXPECT_EXIT(say_message_of([&] {
                const Dataset data = rows().to(device());
                (void)loop(make_state(), data, {{every(1), faulty_step()}}, {.stop = at(20)});
              }),
              testing::ExitedWithCode(0), "the step of .*failures_test.cpp:[0-9]+ had completed 0 of [0-9]+ calls");
}

}  // namespace
}  // namespace giro
