// A training loop written by hand, with full control: giro provides the time, the schedules and the callbacks. `loop`
// in mnist.cpp does the same in less code.
//
//   manual_loop [directory with MNIST's IDX files [steps [logdir]]]

#include <giro/giro.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace nn = giro::nn;

namespace {

void train(const std::string& data, std::int64_t total_steps, const std::string& dir) {
  const giro::Device device = giro::parse_device("auto", giro::discover_devices());
  auto train_data = giro::data::mnist("train", {.dir = data}).shuffle(0).repeat().batch(32).to(device);
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

  const std::string logdir = giro::run_directory(dir);  // a new one, unless one is given
  // A schedule says whether something is due; a callback does it.
  giro::Schedule call_checkpoint = giro::every(1'000) | giro::last();
  giro::Checkpoint checkpoint = giro::checkpoint(logdir + "/model");
  giro::KerasBar bar = giro::keras_bar({.total = total_steps});
  giro::History history;

  for (auto [elapsed, batch] : giro::elapse(train_data, {.stop = giro::at(total_steps)})) {
    const giro::Logs logs = train_step(state, batch);
    if (call_checkpoint(elapsed)) checkpoint(elapsed, state);
    bar(elapsed, logs);
    history.commit(elapsed, logs);
  }

  history.write_csv(logdir + "/history.csv");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? argv[1] : giro::data::MnistOptions().dir, argc > 2 ? std::strtoll(argv[2], nullptr, 10) : 2'000,
        argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "manual_loop: %s\n", error.what());
    return 2;
  }
  return 0;
}
