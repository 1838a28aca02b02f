#include <giro/loop/step/managed.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/loop/predefined_loops.h>

#include "tests/kernels/nn/models.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;
using Values = std::vector<double>;

// The results of a run, to compare bit by bit.
struct Trained {
  std::vector<std::vector<float>> params = {};
  Values loss;
  friend bool operator==(const Trained&, const Trained&) = default;
};

class Managed : public ::testing::Test {
 protected:
  static constexpr std::int64_t kSteps = 6;

  Dataset dataset() const { return test::image_dataset(40, 8).shuffle(1).repeat().batch(5); }
  TrainState create(optim::Optimizer optimizer = optim::adamw(1e-3)) const {
    return TrainState::create(model, std::move(optimizer),
                              {.inputs = dataset().spec(), .seed = 3, .context = Device::cpu()});
  }
  static Trained outcome_of(const TrainState& state, const History& history) {
    Trained outcome{.loss = history.collect("metrics.loss")[0]};
    for (const Leaf& leaf : state.collection("params").leaves()) {
      outcome.params.push_back(to_host<float>(leaf.value, state.stream()));
    }
    return outcome;
  }
  template <class Step>
  Trained train(const Step& step) const {
    const auto result = loop(create(), dataset(), {{every(1), step}}, {.stop = at(kSteps)});
    return outcome_of(result.state, result.history);
  }
  // Two losses: the loss, and half the sum of all biases.
  static Logs losses(const nn::Params& params, const nn::Layer& model, const Batch& batch) {
    const nn::Var loss = mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"]));
    return logs().add_loss("loss", loss, true).add_loss("more", nn::scale(sum(params["dense0/bias"]), 0.5));
  }
  Trained by_hand() const {
    return train(jit([this](TrainState& state, const Batch& batch) {
      const nn::Var loss = state
                               .value_and_grad([&](auto& params) {
                                 const nn::Var first =
                                     mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"]));
                                 return std::pair{nn::add(first, nn::scale(sum(params["dense0/bias"]), 0.5)), first};
                               })
                               .second;
      state.apply_gradients();
      return logs().add_metric("loss", loss);
    }));
  }

  const nn::Layer model = test::linear_model();
};

TEST_F(Managed, LossIsTheSumOfTheLosses) {
  const Trained expected = by_hand();
  ASSERT_EQ(expected.loss.size(), static_cast<std::size_t>(kSteps));
  for (const char* strategy : {"eager", "jit", "jit_donate"}) {
    SCOPED_TRACE(strategy);
    EXPECT_TRUE(train(managed::train_step(
                    [this](const nn::Params& params, const Batch& batch) { return losses(params, model, batch); },
                    strategy)) == expected);
  }
  // With only one of the two losses the training differs.
  EXPECT_FALSE(train(managed::train_step([this](const nn::Params& params, const Batch& batch) {
                 const nn::Var loss = mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"]));
                 return logs().add_loss("loss", loss, true);
               })) == expected);
}

TEST_F(Managed, StateInPlaceOfItsParams) {
  const Trained expected = by_hand();
  EXPECT_TRUE(train(managed::train_step([this](TrainState& state, const Batch& batch) {
                return losses(state.params(), model, batch);
              })) == expected);
  EXPECT_TRUE(train(managed::train_step([this](const Batch& batch, const TrainState& state, nn::Params& params) {
                EXPECT_TRUE(state.params()["dense0/bias"].requires_grad());
                return losses(params, model, batch);
              })) == expected);
}

TEST_F(Managed, StrategiesChooseWhetherToRecord) {
  for (const auto& [name, calls_expected] : std::vector<std::pair<std::string, int>>{{"eager", 6}, {"jit", 1}}) {
    int calls = 0;
    train(managed::train_step(
        [&](const nn::Params& params, const Batch& batch) {
          ++calls;
          return losses(params, model, batch);
        },
        name));
    EXPECT_EQ(calls, calls_expected) << name;
  }
}

// Statics that a state also derives from are still the step's statics.
struct Settings {};
struct StateWithSettings : TrainState, Settings {};
static_assert(std::is_same_v<const Settings&, decltype(detail::pick<Settings>(
                                                  std::declval<nn::Params&>(), std::declval<StateWithSettings&>(),
                                                  std::declval<const Batch&>(), std::declval<const Broadcasts&>(),
                                                  std::declval<const Settings&>()))>);

TEST_F(Managed, BroadcastsAndStatics) {
  const auto step = managed::train_step(
      [this](const nn::Params& params, const int& factor, const Batch& batch, const Broadcasts& broadcasts) {
        const nn::Var loss = mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"]));
        return logs().add_loss("loss", nn::scale(loss, factor)).add_metric("steps_seen", broadcasts["steps"]);
      });
  const auto run = [&](int factor) {
    return loop(create(), dataset(), {{every(1), step.with(factor)}}, {.stop = at(3)}).history;
  };
  const History one = run(1), two = run(2);
  EXPECT_EQ(one.collect("steps_seen")[0], (Values{0, 1, 2}));  // a loop broadcasts elapsed
  EXPECT_EQ(two.collect("loss")[0].front(), 2 * one.collect("loss")[0].front());
}

TEST_F(Managed, EvaluationStepDoesNotTrain) {
  const auto test_step = managed::step([this](const nn::Params& params, const Batch& batch) {
    EXPECT_FALSE(params["dense0/bias"].requires_grad());
    return logs().add_metric("loss", mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"])));
  });
  EXPECT_FALSE(test_step.changes_state());
  const Trained before =
      outcome_of(create(), loop(create(), dataset(), {{every(1), test_step}}, {.stop = at(1)}).history);
  EXPECT_EQ(train(test_step).params, before.params);
}

// A metric with its sum in the state: the current value is logged, and reset at the end of each epoch.
TEST_F(Managed, StatefulMetrics) {
  const auto train_step = managed::train_step([this](TrainState& state, const Batch& batch) {
    increment(state.at("seen"), batch.size(), state.stream());
    return losses(state.params(), model, batch).add_stateful_metric("seen", nn::Var(state.at("seen"), state.stream()));
  });
  const auto reset_step = managed::step([](TrainState& state) {
    state.stream().fill(state.at("seen").raw(), 0, state.at("seen").bytes());
    return Logs();
  });
  EXPECT_TRUE(reset_step.changes_state());
  TrainState state = create();
  state.add("seen", {{"", DType::i64, {}}});
  const auto result = train_loop(
      std::move(state), dataset(),
      {.tasks = {{"train_step", train_step}, {"reset_step", reset_step}}, .epoch_duration = at(3), .stop = at(7)});
  EXPECT_EQ(result.history.collect("stateful_metrics.seen")[0], (Values{5, 10, 15, 5, 10, 15, 5}));
}

TEST_F(Managed, UserDefinedStrategies) {
  managed::register_strategy("frozen", {.handle_grads =
                                            [](TrainState& state) {
                                              const Tensor grads = state.collection("grads").bytes();
                                              state.stream().fill(grads.raw(), 0, grads.bytes());
                                            },
                                        .handle_logs =
                                            [](const TrainState& state, Logs& logs) {
                                              logs.add_metric("step", nn::Var(state.at("step"), state.stream()));
                                            }});
  const auto step = managed::train_step(
      [this](const nn::Params& params, const Batch& batch) { return losses(params, model, batch); }, "frozen");
  const TrainState before = create(optim::sgd(0.1));
  const auto result = loop(create(optim::sgd(0.1)), dataset(), {{every(1), step}}, {.stop = at(3)});
  EXPECT_EQ(outcome_of(result.state, result.history).params, outcome_of(before, result.history).params);
  EXPECT_EQ(result.history.collect("step")[0], (Values{1, 2, 3}));

  expect_invalid({"register_strategy", "'frozen'"}, [] { managed::register_strategy("frozen", {}); });
  expect_invalid({"register_strategy", "''"}, [] { managed::register_strategy("", {}); });
}

TEST_F(Managed, Errors) {
  const auto good = [this](const nn::Params& params, const Batch& batch) { return losses(params, model, batch); };
  expect_error(ErrorCode::not_found, {"no strategy 'jit_donated'", "'jit_donate'"},
               [&] { managed::train_step(good, "jit_donated"); });
  expect_error(ErrorCode::not_found, {"no strategy 'eagr'", "'eager'"}, [&] { managed::step(good, "eagr"); });
  expect_invalid({"data_parallel", "expected a state with a partitioner"},
                 [&] { train(managed::train_step(good, "data_parallel")); });
  expect_invalid({"at least one loss", "found none"},
                 [&] { train(managed::train_step([](const nn::Params&) { return logs().add_metric("loss", 1); })); });
  expect_invalid({"the loss 'l2' is a host number"},
                 [&] { train(managed::train_step([](const nn::Params&) { return logs().add_loss("l2", 1); })); });
  expect_error(ErrorCode::shape_mismatch, {"the loss 'l2'", "expected a scalar"}, [&] {
    train(managed::train_step([](const nn::Params& params) { return logs().add_loss("l2", params["dense0/bias"]); }));
  });
  // An error leaves the state's params without gradients.
  TrainState state = create();
  const auto none = managed::train_step([](TrainState&) { return Logs(); });
  const Batch batch = *dataset().begin();
  expect_invalid({"found none"}, [&] { none(state, batch); });
  EXPECT_FALSE(state.params()["dense0/bias"].requires_grad());
}

}  // namespace
}  // namespace giro
