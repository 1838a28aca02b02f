#include <giro/runtime/program/program.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <giro/kernels/nn/call.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/native_stream.h>

#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/tensor_ops.h"
#include "tests/support/training.h"

namespace giro {
namespace {

using Names = std::vector<std::string>;

constexpr std::int64_t kRows = 6, kInputs = 4, kClasses = 3;

class ProgramTest : public test::OpTest {
 protected:
  static Names ops_of(const Program& program) {
    Names ops;
    for (const Program::Node& node : program.nodes()) ops.push_back(node.op);
    return ops;
  }
  static const Program::Node& node(const Program& program, const std::string& op) {
    for (const Program::Node& node : program.nodes()) {
      if (node.op == op) return node;
    }
    throw std::out_of_range(op);
  }
  // The program of a linear model on one batch.
  Program linear() const {
    const nn::Layer model = nn::dense(kClasses);
    const Dataset data = Dataset({{"x", HostArray(std::vector<float>(kRows * kInputs, 0.5f), {kRows, kInputs})},
                                  {"label", std::vector<std::int32_t>(kRows)}})
                             .batch(kRows)
                             .to(device());
    TrainState state =
        TrainState::create(model, optim::sgd(0.1, {.momentum = 0.9}), {.inputs = data.spec(), .context = device()});
    const auto step = jit(test::training([&](const nn::Params& params, const Batch& batch) {
      return mean(softmax_cross_entropy(model(params, batch["x"]), batch["label"]));
    }));
    const std::int64_t before = to_host<std::int64_t>(state.at("step"), state.stream()).front();
    Program program = step.program(state, *data.begin());
    EXPECT_EQ(to_host<std::int64_t>(state.at("step"), state.stream()).front(), before);  // it has not run
    EXPECT_EQ(step.num_recordings(), 0u);
    (void)program.text();  // while the state lives
    text_ = program.text();
    dot_ = program.dot();
    return program;
  }
  mutable std::string text_, dot_;
};

TEST_P(ProgramTest, ListsTheOpsOfAStep) {
  const Program program = linear();
  Names wanted{"gather_batch", "dense", "mean_cross_entropy", "dense_backward"};
  if (device().is_cuda()) {
    wanted.push_back("update+publish");
  } else {
    wanted.insert(wanted.end(), {"update", "publish_columns"});
  }
  EXPECT_EQ(ops_of(program), wanted);
  // Products of 6 x 4 and 4 x 3, and biases.
  EXPECT_EQ(node(program, "dense").flops, 2 * 6 * 4 * 3 + 6 * 3);
  EXPECT_EQ(node(program, "dense_backward").flops, 2 * 6 * 4 * 3 + 6 * 3);  // the input needs no gradient
  EXPECT_EQ(node(program, "dense").bytes, 4 * (6 * 4 + 4 * 3 + 3 + 6 * 3));
  EXPECT_EQ(node(program, "gather_batch").bytes, 2 * (4 * 6 * 4 + 4 * 6));
  double flops = 0;
  std::int64_t bytes = 0;
  for (const Program::Node& node : program.nodes()) flops += node.flops, bytes += node.bytes;
  EXPECT_EQ(program.flops(), flops);
  EXPECT_EQ(program.bytes(), bytes);
}

TEST_P(ProgramTest, RewritesCanBeSwitchedOff) {
  const test::RewriteSetting rewriting("0");
  EXPECT_EQ(ops_of(linear()), (Names{"batch_indices", "gather_rows", "gather_rows", "dense", "softmax_cross_entropy",
                                     "mean", "fill", "divide", "broadcast_to", "scale_rows", "dense_backward", "copy",
                                     "copy", "update", "increment", "publish_columns"}));
}

TEST_P(ProgramTest, IsText) {
  (void)linear();
  // An op's line, with the continuation lines.
  const auto line = [&](const std::string& op) {
    const std::size_t begin = text_.find(op + " ");
    EXPECT_NE(begin, text_.npos) << op;
    std::size_t end = text_.find('\n', begin);
    while (text_.compare(end + 1, 1, " ") == 0) end = text_.find('\n', end + 1);
    return text_.substr(begin, end - begin);
  };
  EXPECT_NE(line("dense ").find("%0, params/kernel, params/bias -> %2 f32 (6, 3)"), std::string::npos) << text_;
  EXPECT_NE(line("dense ").find(" 162 FLOP"), std::string::npos) << text_;
  EXPECT_NE(line("gather_batch").find("data/x, data/label -> %0 f32 (6, 4)"), std::string::npos) << text_;
  const std::string update = line(device().is_cuda() ? "update+publish" : "update");
  EXPECT_NE(update.find("learning_rate_scale, grads, opt_state/mu, params"), std::string::npos) << text_;
  EXPECT_NE(update.find(" -> learning_rate f32 (), opt_state/mu f32 (32,),"), std::string::npos) << text_;
  EXPECT_NE(line("total").find(device().is_cuda() ? "of 5 ops" : "of 6 ops"), std::string::npos) << text_;
  EXPECT_NE(dot_.find("op1 [label=\"dense\\n"), std::string::npos) << dot_;
  EXPECT_NE(dot_.find("op0 -> op1 [label=\"%0\\nf32 (6, 4)\"]"), std::string::npos) << dot_;
  EXPECT_NE(dot_.find("\"params/kernel\" -> op1"), std::string::npos) << dot_;
}

TEST(ProgramTextTest, FitsATerminal) {
  const Device cpu = Device::cpu();
  std::vector<float> memory(64);
  std::vector<Leaf> leaves;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 8; ++i) {
    tensors.emplace_back(memory.data() + i, DType::f32, Shape{1, 1, 1}, cpu);
    leaves.push_back({fmt::format("params/encoder/layer{}/attention/kernel{}", i, std::string(i == 7 ? 300 : 0, 'x')),
                      tensors.back()});
  }
  Program program;
  program.add({std::string(40, 'o'), {tensors[6], tensors[7]}, tensors, 1e12, std::int64_t{1} << 36});
  program.add({"avg_pool_activation_backward", {tensors[0]}, {tensors[1]}, 1e12, std::int64_t{1} << 36});
  program.set_names(leaves);
  for (const bool timed : {false, true}) {
    if (timed) program.set_times({1.23456, 0.5}, {.speed = {.bytes = 1e12, .flops = 1e12}, .replay = 2});
    const std::string text = program.text();
    std::string all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 120U) << line;
      all += line.starts_with("    ") ? line.substr(4) : "";
    }
    for (const Leaf& leaf : leaves) EXPECT_NE(all.find(leaf.path), std::string::npos) << text;
    EXPECT_NE(text.find(std::string(40, 'o') + "\n"), std::string::npos) << text;
  }
}

// A reshape takes no work, forward or backward.
TEST_P(ProgramTest, ReshapesAreFree) {
  const nn::Layer model = nn::sequential(nn::dense(4), nn::flatten(), nn::dense(kClasses));
  TrainState state = TrainState::create(model, optim::sgd(0.1),
                                        {.inputs = {{"x", DType::f32, {kRows, kInputs}}}, .context = device()});
  const Graph graph = Graph::record(state.stream(), [&] {
    const Tensor x = state.at("params/dense0/kernel");  // (kInputs, 4), serves as any input
    (void)state.value_and_grad(
        [&](const nn::Params& params) { return mean(model(params, nn::Var(x, state.stream()))); });
  });
  // Without rules each gradient is copied to its leaf.
  EXPECT_EQ(ops_of(graph.program()),
            (Names{"dense", "dense", "mean", "fill", "divide", "broadcast_to", "dense_backward", "dense_backward",
                   "copy", "copy", "dense_backward", "copy", "copy"}));
  constexpr const char* kArguments =
      "    dz: s(bo), x?: s|u8(bi), w?: s(io) -> dx?: s(bi), dw?: s|f32(io), db?: s|f32(o)\n";
  EXPECT_EQ(graph.program().text().find(kArguments), std::string::npos);
  EXPECT_NE(graph.program().text(true).find(kArguments), std::string::npos) << graph.program().text(true);
}

// Work that an op queues is part of the op; work that giro cannot look into is listed by name.
TEST_P(ProgramTest, ListsWorkOfAllKinds) {
  const Stream stream(device());
  const Buffer memory = Buffer::allocate(device(), 64);
  const Tensor x(memory.data(), DType::f32, {16}, device());
  const Graph inner = Graph::record(stream, [&] { scale(x, x, 2.0, stream); });
  EXPECT_EQ(ops_of(inner.program()), Names{"scale"});
  const Graph graph = Graph::record(stream, [&] {
    stream.fill(x.raw(), 0, 64);
    inner.replay(stream);
    const nn::Var y = nn::call("my_op", {.shape = {16}}, {nn::Var(x, stream)},
                               {.cuda = [](auto&, auto&, auto*) {}, .cpu = [](auto&, auto&) {}});
    if (device().is_cuda()) {
      (void)cuda_stream(stream);
    } else {
      submit(stream, [] {});
    }
    copy(x, y.value(), stream);
  });
  EXPECT_EQ(ops_of(graph.program()),
            (Names{"fill", "scale", "my_op", device().is_cuda() ? "cuda_stream" : "submit", "copy"}));
  EXPECT_EQ(ops_of(Graph::sequence({&inner, &graph}).program()).size(), 6u);
  EXPECT_EQ(graph.program().nodes()[2].bytes, 128);
}

INSTANTIATE_TEST_SUITE_P(Devices, ProgramTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
