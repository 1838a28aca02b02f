// The README's listing: it compiles as a user would write it, and can run again and again.

#include <giro/giro.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace nn = giro::nn;

namespace listing {

int main() {
  auto train = giro::data::mnist("train").shuffle(0).repeat().batch(32);
  auto model = nn::sequential(nn::scale(1 / 255.f), nn::flatten(), nn::dense(10));
  auto state = giro::TrainState::create(model, giro::optim::adamw(1e-3), {.inputs = train.spec()});

  auto train_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    auto [loss, logits] = state.value_and_grad([&](auto& params) {
      auto logits = model(params, batch["image"]);
      return std::pair{mean(softmax_cross_entropy(logits, batch["label"])), logits};
    });
    state.apply_gradients();
    return giro::logs().add_metric("loss", loss).add_metric("accuracy", accuracy(logits, batch["label"]));
  });

  const int total_steps = 5'000;
  auto [trained, history, elapsed] =
      giro::loop(std::move(state), train,
                 {
                     {giro::every(1), train_step},
                     {giro::every(1'000) | giro::last(), giro::backup_and_restore("logdir/model")},
                     {giro::every(1), giro::keras_bar({.total = total_steps})},
                 },
                 {.stop = giro::at(total_steps)});

  auto [steps, loss, acc] = history.collect("steps", "loss", "accuracy");
  return static_cast<int>(steps.size() + loss.size() + acc.size());
}

}  // namespace listing

TEST(DesignListing, Compiles) { EXPECT_NE(&listing::main, nullptr); }

// The same with less data and fewer steps.
TEST(DesignListing, RunsAgain) {
  const giro::test::TemporaryDirectory dir;
  const giro::Dataset train = giro::Dataset({{"image", {std::vector<std::uint8_t>(40 * 4, 7), {40, 2, 2, 1}}},
                                             {"label", std::vector<std::uint8_t>(40, 3)}})
                                  .shuffle(0)
                                  .repeat()
                                  .batch(8);
  const auto model = nn::sequential(nn::scale(1 / 255.f), nn::flatten(), nn::dense(10));
  const auto run = [&](const std::string& logdir, std::int64_t total_steps) {
    auto train_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
      auto loss = state.value_and_grad(
          [&](auto& params) { return mean(softmax_cross_entropy(model(params, batch["image"]), batch["label"])); });
      state.apply_gradients();
      return giro::logs().add_metric("loss", loss);
    });
    auto [trained, history, elapsed] =
        giro::loop(giro::TrainState::create(model, giro::optim::adamw(1e-3), {.inputs = train.spec()}), train,
                   {
                       {giro::every(1), train_step},
                       {giro::every(10) | giro::last(), giro::backup_and_restore(logdir + "/model")},
                   },
                   {.stop = giro::at(total_steps)});
    EXPECT_EQ(elapsed.steps, total_steps);
    return history.collect("steps", "loss");
  };
  const auto first = run(dir / "a", 25);
  EXPECT_EQ(first[0].size(), 25u);
  EXPECT_EQ(run(dir / "a", 25), first);
  EXPECT_EQ(run(dir / "a", 30), run(dir / "b", 30));  // a longer run resumes
  // Each run in its own directory.
  for (const char* number : {"/1", "/2"}) {
    const std::string logdir = giro::run_directory("", {.parent = dir / "runs"});
    EXPECT_EQ(logdir, dir / "runs" + number);
    EXPECT_EQ(run(logdir, 25), first);
  }
}
