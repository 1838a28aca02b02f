// The graph nodes and memory that the sample's steps take. Nodes are counted because each one costs time on a GPU.

#include <gtest/gtest.h>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/step/step.h>

#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"

namespace giro {
namespace {

class ProgramSizeTest : public test::OpTest {
 protected:
  // A step of the sample that logs loss and accuracy.
  std::shared_ptr<detail::StepRecording> recorded(const nn::Layer& model, std::int64_t batch) {
    const Dataset data = test::image_dataset(batch, 28).batch(batch).to(device());
    state_.emplace(TrainState::create(model, optim::adamw(1e-3, {.weight_decay = 1e-4}),
                                      {.inputs = data.spec(), .context = device()}));
    const auto step = jit([&](TrainState& s, const Batch& b) {
      nn::Var logits;
      const nn::Var loss = s.value_and_grad([&](const nn::Params& params) {
        logits = model(params, b["image"]);
        return mean(softmax_cross_entropy(logits, b["label"]));
      });
      s.apply_gradients();
      return logs().add_metric("loss", loss).add_metric("accuracy", nn::accuracy(logits, b["label"]));
    });
    return step.find(*state_, *data.begin(), {}, nullptr);
  }
  std::optional<TrainState> state_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ProgramSizeTest, test::kDevices, test::device_name);

TEST_P(ProgramSizeTest, OfALinearStep) {
  const test::ArenaSetting arena("1");
  const auto step = recorded(test::linear_model(), 32);
  EXPECT_EQ(step->graph().program().nodes().size(), device().is_cuda() ? 5u : 6u);
  EXPECT_LE(step->graph().num_nodes(), device().is_cuda() ? 7u : 10u);
  EXPECT_LE(step->graph().longest_path(), device().is_cuda() ? 5u : 10u);
}

TEST_P(ProgramSizeTest, OfTheCnns) {
  const test::ArenaSetting arena("1");
  const auto step = recorded(test::cnn_model(), 32);
  const Program& program = step->graph().program();
  EXPECT_EQ(program.nodes().size(), device().is_cuda() ? 18u : 21u);
  EXPECT_LE(step->graph().num_nodes(), device().is_cuda() ? 22u : 30u);
  EXPECT_LE(step->graph().longest_path(), device().is_cuda() ? 18u : 30u);
  EXPECT_LE(static_cast<double>(step->graph().arena_bytes()), 1.25 * static_cast<double>(program.min_memory()));
}

}  // namespace
}  // namespace giro
