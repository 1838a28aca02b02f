// Ranks that do not do the same: an error on all of them that names what differs.

#include <giro/giro.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"
#include "tests/support/expect_error.h"

namespace giro::test {
namespace {

// Each test is of several ranks, of which the last does something else.
class MisuseOfRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (world().size() == 1) GTEST_SKIP() << "one rank";
  }
  bool is_other() const { return world().rank() == world().size() - 1; }
  TrainState state() const {
    return TrainState::create(
        model(), optim::adamw(1e-2),
        {.inputs = {{"x", DType::f32, {1, kFeatures}}}, .context = test_device(), .partitioner = partitioner_});
  }
  Dataset rows() const { return random_rows().repeat().batch(48).partition(partitioner_); }
  // Makes a step of loss(logits, labels) that logs `more`, too.
  using Loss = std::function<nn::Var(const nn::Var& logits, const nn::Var& labels)>;
  static auto step(Loss loss, Logs more = {}) {
    return [loss = std::move(loss), more = std::move(more)](TrainState& s, const Batch& batch) {
      const nn::Var value = s.value_and_grad(
          [&](const nn::Params& params) { return loss(s.model()(params, batch["x"]), batch["label"]); });
      s.apply_gradients();
      return logs().add_metric("loss", value).updates(more);
    };
  }
  static nn::Var cross_entropy(const nn::Var& logits, const nn::Var& labels) {
    return mean(softmax_cross_entropy(logits, labels));
  }
  static nn::Var squares(const nn::Var& logits, const nn::Var&) { return mean(nn::square(logits)); }
  std::string other() const { return "rank " + std::to_string(world().size() - 1); }

  const std::shared_ptr<const Partitioner> partitioner_ = data_parallel(world(), test_device());
};

TEST_F(MisuseOfRanks, OneLogsAnEntryMore) {
  const auto logging = step(cross_entropy, is_other() ? logs().add_metric("more", 1) : Logs());
  const Dataset data = rows();
  for (const auto& made : {jit(logging), eager(logging)}) {
    TrainState s = state();
    expect_error(ErrorCode::communication, {"the step of", other(), "metrics.more", "rank 0"},
                 [&] { made(s, *data.begin()); });
  }
}

TEST_F(MisuseOfRanks, OneComputesAnotherLoss) {
  TrainState s = state();
  const Dataset data = rows();
  expect_error(ErrorCode::communication, {"the step of", other(), "rank 0", "softmax_cross_entropy"},
               [&] { jit(step(is_other() ? Loss(squares) : Loss(cross_entropy)))(s, *data.begin()); });
  // They agree again afterwards.
  const auto same = jit(step(cross_entropy));
  EXPECT_GT(same(s, *data.begin()).entry_value("loss"), 0);
}

TEST_F(MisuseOfRanks, AStepIsComparedAgainAfterAnError) {
  TrainState s = state();
  const Dataset data = rows();
  const auto logging = jit(step(cross_entropy, is_other() ? logs().add_metric("more", 1) : Logs()));
  for (int i = 0; i < 2; ++i) {
    expect_error(ErrorCode::communication, {"metrics.more"}, [&] { logging(s, *data.begin()); });
  }
}

TEST_F(MisuseOfRanks, OneUsesTheStepAloneFirst) {
  const auto trains = jit(step(cross_entropy));
  if (is_other()) {
    TrainState alone = TrainState::create(model(), optim::adamw(1e-2),
                                          {.inputs = {{"x", DType::f32, {1, kFeatures}}}, .context = test_device()});
    (void)trains(alone, *random_rows().batch(16).begin());
  }
  TrainState s = state();
  EXPECT_GT(trains(s, *rows().begin()).entry_value("loss"), 0);
}

// Its parts differ in size, and one may be empty: other ops are right.
TEST_F(MisuseOfRanks, NoneWhenTheFirstBatchIsShort) {
  const Dataset data = random_rows().batch(48 + 12).partition(partitioner_).skip(1);
  const auto weighted = jit(step([](const nn::Var& logits, const nn::Var& labels) {
    return nn::weighted_mean(softmax_cross_entropy(logits, labels), cast(labels, DType::f32) + 1);
  }));
  TrainState s = state();
  EXPECT_GT(weighted(s, *data.begin()).entry_value("loss"), 0);
}

}  // namespace

void misuse() {
  const bool is_other = world().rank() == 1;
  const auto partitioner = data_parallel(world(), test_device());
  auto state = TrainState::create(
      model(), optim::adamw(1e-2),
      {.inputs = {{"x", DType::f32, {1, kFeatures}}}, .context = test_device(), .partitioner = partitioner});
  const auto data = random_rows().repeat().batch(48).partition(partitioner);
  const auto evaluate = jit([is_other](const TrainState& s, const Batch& batch) {
    Logs result = logs().add_metric("validation", mean(s.model()(s.params(), batch["x"])));
    if (is_other) result.add_metric("more", 1);
    return result;
  });
  // Calls of the first step are still held back by rank 1 alone.
  (void)loop(std::move(state), data, {{every(1), make_step()}, {every(20) & after(1), evaluate}},
             {.stop = at(50), .steps_per_execution = is_other ? 50 : 1});
}

}  // namespace giro::test
