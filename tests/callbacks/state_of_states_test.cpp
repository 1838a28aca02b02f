// Trains two networks with one state that contains another.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/early_stopping.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/loop.h>
#include <giro/runtime/snapshot.h>

#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

struct TwoNetworks : TrainState {
  TwoNetworks(TrainState first, TrainState second) : TrainState(std::move(first)), other(std::move(second)) {
    attach("other", other);
  }
  TrainState other;
};
struct Forgetful : TrainState {
  Forgetful(TrainState first, TrainState second) : TrainState(std::move(first)), other(std::move(second)) {}
  TrainState other;
};

class StateOfStatesTest : public test::OpTest {
 protected:
  template <class S>
  S make() const {
    const Dataset data = test::image_dataset(40, 4).batch(4);
    auto first = TrainState::create(test::linear_model(), optim::adamw(1e-2),
                                    {.inputs = data.spec(), .seed = 1, .context = device()});
    auto second = TrainState::create(test::linear_model(), optim::adamw(3e-2),
                                     {.inputs = data.spec(), .seed = 2, .context = first.context()});
    return S(std::move(first), std::move(second));
  }
  template <class S>
  LoopResult<S> run(const std::string& dir, std::int64_t stop, std::vector<Task<S, Batch>> more = {}) const {
    const Dataset data = test::image_dataset(40, 4).shuffle(3).repeat().batch(4);
    const nn::Layer model = test::linear_model();
    const auto step = jit([&](S& state, const Batch& batch) {
      const auto loss_of = [&](auto& params) {
        return mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"]));
      };
      const nn::Var loss = state.value_and_grad(loss_of);
      state.apply_gradients();
      const nn::Var other_loss = state.other.value_and_grad(loss_of);
      state.other.apply_gradients();
      return logs().add_metric("loss", loss).add_metric("other_loss", other_loss);
    });
    std::vector<Task<S, Batch>> tasks{{every(1), step}, {every_end(5), backup_and_restore(dir)}};
    tasks.insert(tasks.end(), more.begin(), more.end());
    return loop(make<S>(), data, tasks, {.stop = at(stop)});
  }
};

TEST_P(StateOfStatesTest, ResumedRunIsBitwiseEqualToUninterrupted) {
  const test::TemporaryDirectory dir;
  const auto whole = run<TwoNetworks>(dir / "whole", 12);
  (void)run<TwoNetworks>(dir / "cut", 8);  // it was saved at step 5
  const auto rest = run<TwoNetworks>(dir / "cut", 12);
  EXPECT_EQ(test::saved_bytes(rest.state), test::saved_bytes(whole.state));
  EXPECT_EQ(test::saved_bytes(rest.state.other), test::saved_bytes(whole.state.other));
  EXPECT_EQ(rest.history.column("other_loss"), whole.history.column("other_loss"));
  EXPECT_EQ(to_host<std::int64_t>(whole.state.at("other/step"), whole.state.stream()).front(), 12);
}

TEST_P(StateOfStatesTest, SnapshotAndCopyCoverBothStates) {
  TwoNetworks state = make<TwoNetworks>();
  const auto set = [&](float value) {
    from_host(state.other.at("params/dense0/bias"), std::vector<float>(10, value), state.stream());
  };
  const auto get = [&] { return to_host<float>(state.other.at("params/dense0/bias"), state.stream())[3]; };
  set(1);
  const Snapshot snapshot(state);
  const TrainState copy = state.clone();
  set(2);
  snapshot.write_back(state);
  EXPECT_EQ(get(), 1);
  set(3);
  state.assign(copy);
  EXPECT_EQ(get(), 1);
  TwoNetworks moved = std::move(state);
  TwoNetworks& same = moved;
  moved = std::move(same);
  EXPECT_EQ(to_host<float>(moved.at("other/params/dense0/bias"), moved.stream())[0], 1);
}

TEST_P(StateOfStatesTest, SavingAnUnattachedStateIsAnError) {
  const test::TemporaryDirectory dir;
  test::expect_invalid({"holds another", "attach"}, [&] { (void)run<Forgetful>(dir / "model", 2); });
  EXPECT_FALSE(std::filesystem::exists(dir / "model"));
  Forgetful state = make<Forgetful>();
  test::expect_invalid({"holds another", "attach"}, [&] { checkpoint(dir / "model")(Elapsed(), state); });
  test::expect_invalid({"holds another", "attach"}, [&] {
    const auto log = [](const Forgetful&) { return logs().add_loss("loss", 1); };
    (void)loop(make<Forgetful>(), std::vector<int>(2),
               {{every(1), log}, {every(1), early_stopping("loss", {.restore_best = true})}});
  });
  // A replacement is not the state that was attached.
  TwoNetworks both = make<TwoNetworks>();
  both.other = std::move(make<TwoNetworks>().other);
  test::expect_invalid({"'other'", "was destroyed or replaced", "attach()"}, [&] { both.flatten(); });
}

INSTANTIATE_TEST_SUITE_P(Devices, StateOfStatesTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
