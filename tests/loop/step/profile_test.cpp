// Step::profile: the times of a step, and a run that continues after it as if nothing had happened.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <giro/kernels/device_speed.h>
#include <giro/kernels/nn/call.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/indexing.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/reduce.h>
#include <giro/kernels/nn/sort.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/program/graph.h>

#include "tests/kernels/op_test.h"
#include "tests/support/saved_bytes.h"
#if GIRO_WITH_CUDA
#include "tests/loop/step/own_kernels.h"
#endif

namespace giro {
namespace {

constexpr std::int64_t kProfileRows = 6, kProfileInputs = 4, kProfileClasses = 3;

class ProfileTest : public test::OpTest {
 protected:
  ProfileTest() {
    std::vector<float> x;
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < 5 * kProfileRows * kProfileInputs; ++i) x.push_back(static_cast<float>(i % 7) - 3);
    for (std::int64_t i = 0; i < 5 * kProfileRows; ++i)
      labels.push_back(static_cast<std::int32_t>(i % kProfileClasses));
    rows_.emplace(Dataset({{"x", HostArray(x, {5 * kProfileRows, kProfileInputs})}, {"label", labels}})
                      .shuffle(1)
                      .repeat()
                      .batch(kProfileRows));
  }
  TrainState make_state() const {
    return TrainState::create(model_, optim::adamw(1e-2), {.inputs = rows_->spec(), .context = device()});
  }
  // A step with ops that write to their own input and ops that count; with `own`, also one that is not giro's.
  auto make_step(bool own) const {
    return jit([this, own](TrainState& s, const Batch& batch) {
      nn::Var logits;
      const nn::Var loss = s.value_and_grad([&](const nn::Params& params) {
        logits = model_(params, batch["x"]);
        if (own) {
          logits = nn::call("my_op", {.shape = logits.shape()}, {logits},
                            {.cuda = copy_on_cuda,
                             .cpu = copy_on_cpu,
                             .vjp = [](auto&, auto& dy, auto&) { return dy; },
                             .is_pure = is_alone_});
        }
        return mean(softmax_cross_entropy(logits, batch["label"]));
      });
      s.apply_gradients();
      return logs().add_metric("loss", loss).add_metric("accuracy", nn::accuracy(logits, batch["label"]));
    });
  }
  static void copy_on_cpu(const Tensor& out, const std::vector<Tensor>& in) {
    std::copy_n(in[0].data<float>(), in[0].count(), out.data<float>());
  }
  static void copy_on_cuda([[maybe_unused]] const Tensor& out, [[maybe_unused]] const std::vector<Tensor>& in,
                           [[maybe_unused]] CUstream_st* stream) {
#if GIRO_WITH_CUDA
    test::twice_abs(out.data<float>(), in[0].data<float>(), out.count(), stream);
#endif
  }

  // The bytes of all leaves after 7 steps, and the logs; with `profiled`, the step is profiled after the third.
  std::vector<double> run(bool resident, bool own, bool profiled) const {
    TrainState state = make_state();
    const Dataset data = resident ? Dataset(*rows_).to(device()) : *rows_;
    const auto step = make_step(own);
    std::vector<Logs> sent;
    auto batch = data.begin();
    for (int i = 0; i < 7; ++i, ++batch) {
      if (profiled && i == 3) program_ = step.profile(state, *batch);
      sent.push_back(step(state, *batch));
    }
    std::vector<double> values;
    for (const Logs& one : sent) {
      values.push_back(one.entry_value("loss"));
      values.push_back(one.entry_value("accuracy"));
    }
    for (const auto& [path, bytes] : test::leaf_bytes(state)) values.insert(values.end(), bytes.begin(), bytes.end());
    return values;
  }
  const nn::Layer model_ = nn::sequential(nn::dense(8, {.activation = Activation::tanh}), nn::dense(kProfileClasses));
  std::optional<Dataset> rows_;
  bool is_alone_ = false;  // the user's op touches only its arguments
  mutable Program program_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ProfileTest, test::kDevices, test::device_name);

TEST_P(ProfileTest, ReportsTimeAndFloorOfEachOp) {
  (void)run(/*resident=*/true, /*own=*/false, /*profiled=*/true);
  ASSERT_TRUE(program_.times());
  const auto& [speed, replay] = *program_.times();
  EXPECT_GT(replay, 0);
  EXPECT_GT(speed.bytes, 0);
  EXPECT_GT(speed.flops, 0);
  for (const Program::Node& node : program_.nodes()) {
    ASSERT_TRUE(node.seconds) << node.op;
    EXPECT_GT(*node.seconds, 0) << node.op;
    EXPECT_EQ(program_.floor(node), std::max(static_cast<double>(node.bytes) / speed.bytes, node.flops / speed.flops));
  }
  const std::string text = program_.text();
  EXPECT_NE(text.find("100.0 %  floor"), std::string::npos) << text;
  EXPECT_NE(text.find("replayed as a whole: "), std::string::npos) << text;
  EXPECT_NE(text.find("GB/s copied"), std::string::npos) << text;
  EXPECT_NE(program_.dot().find(" us, floor "), std::string::npos) << program_.dot();
  // Measured once per process.
  EXPECT_EQ(device_speed(Stream(device())).flops, speed.flops);
}

TEST_P(ProfileTest, MarksWorkThatIsNotAnOp) {
  (void)run(/*resident=*/true, /*own=*/true, /*profiled=*/true);
  int others = 0;
  for (const Program::Node& node : program_.nodes()) {
    EXPECT_EQ(node.seconds.has_value(), node.is_op) << node.op;
    others += node.is_op ? 0 : 1;
  }
  EXPECT_EQ(others, 1);
  EXPECT_NE(program_.text().find("not measured"), std::string::npos) << program_.text();
}

TEST_P(ProfileTest, UserOpIsMeasuredLikeAnyOther) {
  is_alone_ = true;
  const std::vector<double> expected = run(/*resident=*/true, /*own=*/true, /*profiled=*/false);
  EXPECT_EQ(run(/*resident=*/true, /*own=*/true, /*profiled=*/true), expected);
  bool is_there = false;
  for (const Program::Node& node : program_.nodes()) {
    EXPECT_TRUE(node.seconds.has_value()) << node.op;
    is_there = is_there || node.op == "my_op";
  }
  EXPECT_TRUE(is_there);
}

TEST_P(ProfileTest, RunContinuesWithTheSameBits) {
  EXPECT_EQ(run(/*resident=*/true, /*own=*/true, true), run(true, true, false));
  EXPECT_EQ(run(/*resident=*/false, /*own=*/false, true), run(false, false, false));
}

TEST_P(ProfileTest, ProgramWithoutProfileHasNoTimes) {
  TrainState state = make_state();
  const Program program = make_step(false).program(state, *rows_->begin());
  EXPECT_FALSE(program.times());
  EXPECT_EQ(program.text().find("floor"), std::string::npos);
  EXPECT_EQ(program.floor(program.nodes().front()), 0);
  EXPECT_NE(program.name().find("the step of "), std::string::npos);
  EXPECT_NE(program.name().find("profile_test.cpp:"), std::string::npos) << program.name();
}

TEST_P(ProfileTest, MeasuresNothingWithinARecording) {
  const Stream stream(device());
  test::expect_invalid({"device_speed"}, [&] { Graph::record(stream, [&] { device_speed(stream); }); });
}

// Ids that an op writes over its own input are beyond the table once it has run several times.
TEST_P(ProfileTest, IgnoresIndexErrorsOfRepeatedOps) {
  TrainState state = make_state();
  const auto step = jit([](TrainState& s, const Batch& batch) {
    const nn::Var ids = nn::argsort(batch["x"]) + 1;
    const nn::Var table = cast(nn::arange(1 + kProfileInputs, s.stream()), DType::f32).reshape({1 + kProfileInputs, 1});
    return logs().add_metric("sum", sum(nn::embedding(ids, table)));
  });
  EXPECT_NO_THROW(step.profile(state, *rows_->begin()));
}

}  // namespace
}  // namespace giro
