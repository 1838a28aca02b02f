// fit: trains by epochs with an evaluation at the end of each, in the style of Keras.
//
//   fit [directory with MNIST's IDX files [epochs]]

#include <giro/giro.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace nn = giro::nn;

namespace {

void train(const std::string& data, std::int64_t epochs) {
  const giro::Device device = giro::parse_device("auto", giro::discover_devices());
  const giro::data::MnistOptions options{.dir = data};
  auto train_data = giro::data::mnist("train", options).shuffle(0).repeat(epochs).batch(32).to(device);
  auto test_rows = giro::data::mnist("test", options);
  auto test_data = test_rows.batch(std::min<std::int64_t>(1'000, test_rows.num_rows())).to(device);

  const auto model = nn::sequential(nn::scale(1 / 255.f), nn::flatten(), nn::dense(10));
  auto state =
      giro::TrainState::create(model, giro::optim::adamw(1e-3), {.inputs = train_data.spec(), .context = device});

  auto train_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    auto [loss, logits] = state.value_and_grad([&](auto& params) {
      auto logits = model(params, batch["image"]);
      return std::pair{mean(softmax_cross_entropy(logits, batch["label"])), logits};
    });
    state.apply_gradients();
    return giro::logs().add_metric("loss", loss).add_metric("accuracy", accuracy(logits, batch["label"]));
  });
  auto test_step = giro::jit([&](const giro::TrainState& state, const giro::Batch& batch) {
    auto logits = model(state.params(), batch["image"]);
    return giro::logs()
        .add_metric("loss", mean(softmax_cross_entropy(logits, batch["label"])))
        .add_metric("accuracy", accuracy(logits, batch["label"]));
  });

  auto [trained, history, elapsed] = giro::fit(std::move(state), train_data,
      {.tasks = {{"train_step", train_step}, {"test_step", test_step}},
          .callbacks = {giro::keras_bar({.total = train_data.num_batches()})},
          .test_dataset = test_data});

  const auto [steps, loss, accuracy] = history.collect("steps", "loss_test", "accuracy_test");
  for (std::size_t epoch = 0; epoch < steps.size(); ++epoch) {
    std::printf("epoch %zu: test loss %.4f, test accuracy %.4f\n", epoch + 1, loss[epoch], accuracy[epoch]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? argv[1] : giro::data::MnistOptions().dir, argc > 2 ? std::strtoll(argv[2], nullptr, 10) : 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fit: %s\n", error.what());
    return 2;
  }
  return 0;
}
