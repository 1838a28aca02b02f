// The listing that the library was designed for; it must compile as a user would write it.

#include <giro/giro.h>
#include <gtest/gtest.h>

namespace nn = giro::nn;

namespace listing {

int main() {
  auto train = giro::data::mnist("train").shuffle(0).repeat().batch(32);
  auto model = nn::sequential(nn::scale(1 / 255.f), nn::flatten(), nn::dense(10));
  auto state = giro::TrainState::create(model, train.spec(), giro::optim::adamw(1e-3), /*seed=*/0);

  auto train_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    auto [loss, logits] = state.value_and_grad([&](auto& params) {
      auto logits = model(params, batch["image"]);
      return std::pair{mean(softmax_cross_entropy(logits, batch["label"])), logits};
    });
    state.apply_gradients();
    return giro::logs().add_metric("loss", loss).add_metric("accuracy", accuracy(logits, batch["label"]));
  });

  const int total_steps = 5'000;
  auto [trained, history, elapsed] = giro::loop(std::move(state), train,
                                                {
                                                    {giro::every(1), train_step},
                                                    {giro::every(1'000), giro::checkpoint("logdir/model")},
                                                    {giro::every(1), giro::keras_bar({.total = total_steps})},
                                                },
                                                {.stop = giro::at(total_steps)});

  auto [steps, loss, acc] = history.collect("steps", "loss", "accuracy");
  return static_cast<int>(steps.size() + loss.size() + acc.size());
}

}  // namespace listing

TEST(DesignListing, Compiles) { EXPECT_NE(&listing::main, nullptr); }
