// Trains a ResNet-18 on CIFAR-10, with augmentation on the device and an average of the weights. Run it with
// samples/resnet.sh.

#include <giro/giro.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "../sample.h"
#include "model.h"

namespace nn = giro::nn;

namespace {

struct Arguments : sample::Options {
  std::string data;
  std::int64_t batch = 128, features = 64, evaluate_every = 500;
  double learning_rate = 0.1, ema = 0.99;
  bool eager = false, program = false, arguments = false;

  Arguments() {
    steps = 2'000;
    checkpoint_every = 500;
  }
};

// Random pixels, in images of CIFAR-10's shape.
giro::Dataset random_images(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<std::uint8_t> images(static_cast<std::size_t>(count * 32 * 32 * 3)), labels;
  for (std::uint8_t& value : images) value = static_cast<std::uint8_t>(engine());
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(static_cast<std::uint8_t>(engine() % 10));
  return giro::Dataset({{"image", giro::HostArray(std::move(images), {count, 32, 32, 3})}, {"label", labels}});
}

giro::Dataset images(const Arguments& args, const std::string& split) {
  if (args.data.empty()) return random_images(split == "train" ? 2'048 : 512, split == "train" ? 1 : 2);
  return giro::data::cifar10(split, {.dir = args.data});
}

// Returns the exit code.
int train(const Arguments& args) {
  const sample::Environment environment(args);
  const auto& [world, context, partitioner] = environment;
  if (args.data.empty() && world.is_primary()) std::printf("random images: set CIFAR-10's folder with --data\n");

  auto train_data =
      images(args, "train").shuffle(args.seed).repeat().batch(args.batch).partition(partitioner).to(context.device());
  auto test_rows = images(args, "test");
  const std::int64_t test_batch = std::min<std::int64_t>(500, test_rows.num_rows()) / world.size() * world.size();
  auto test_data = test_rows.batch(test_batch).partition(partitioner).to(context.device());

  const ResNet18 network{.features = args.features, .synchronized = partitioner != nullptr};
  const auto model = [&](nn::Scope s, const nn::Var& image) {
    const nn::Var seen = s.training() ? augmented(s, image) : image;
    return network(s, (cast(seen, giro::DType::f32) - 120) / 64);
  };
  const auto decays = [](const std::string& path) { return path.ends_with("kernel"); };
  const std::int64_t warmup = std::max<std::int64_t>(args.steps / 20, 1);
  const auto optimizer = giro::optim::ema(args.ema,
      giro::optim::sgd(
          giro::optim::warmup_cosine(args.learning_rate, warmup, std::max<std::int64_t>(args.steps - warmup, 1)),
          {.momentum = 0.9, .nesterov = true, .weight_decay = 5e-4, .decay_mask = decays}));
  auto state = giro::TrainState::create(model, optimizer,
      {.inputs = train_data.spec(),
          .seed = args.seed,
          .context = context,
          .partitioner = partitioner,
          .precision = giro::parse_precision(args.dtype)});

  const auto update = [&](giro::TrainState& state, const giro::Batch& batch) {
    auto [loss, logits] = state.value_and_grad([&](auto& params) {
      auto logits = model(params, batch["image"]);
      return std::pair{mean(softmax_cross_entropy(logits, batch["label"])), logits};
    });
    state.apply_gradients();
    return giro::logs().add_metric("loss", loss).add_metric("accuracy", accuracy(logits, batch["label"]));
  };
  const auto train_step = args.eager ? giro::eager(update) : giro::jit(update);
  if (args.program) {
    const giro::Program program = train_step.profile(state, *train_data.begin());
    if (world.is_primary()) std::fputs(program.text(args.arguments).c_str(), stdout);
    return 0;
  }
  auto test_step = giro::jit([&](const giro::TrainState& state, const giro::Batch& batch) {
    auto logits = model(state.ema_params(), batch["image"]);
    return giro::logs()
        .add_metric("loss", mean(softmax_cross_entropy(logits, batch["label"])))
        .add_metric("accuracy", accuracy(logits, batch["label"]));
  });
  const auto test = [&](giro::TrainState& state) {
    return giro::loop(std::move(state), test_data, {{giro::every(1), test_step}});
  };

  const std::string logdir = giro::run_directory(args.logdir, {.resume = args.resume, .partitioner = partitioner});
  const giro::Schedule evaluating = args.evaluate_every == 0 ? giro::never() : giro::every_end(args.evaluate_every);
  sample::Stopwatch stopwatch(logdir + "/model");
  const giro::Schedule others = evaluating | args.saving() | stopwatch.begins() | giro::last();
  auto trained = giro::loop(std::move(state), train_data,
      {
          {giro::every(1), train_step},
          {others, stopwatch.pause()},
          {evaluating, giro::inner_loop("test", test).preserves_state()},
          {args.saving(), giro::backup_and_restore(logdir + "/model")},
          {giro::every(1), giro::keras_bar({.total = args.steps, .always_stateful = true})},
          {others, stopwatch.restart()},
      },
      {.stop = giro::at(args.steps)});
  if (trained.interrupted != 0) {
    return sample::stopped(trained.interrupted, trained.elapsed.steps, environment, logdir, args.checkpoint_every > 0);
  }
  const auto tested = giro::aggregate(test(trained.state).history);

  if (!world.is_primary()) return 0;
  trained.history.write_csv(logdir + "/history.csv");
  giro::write_curves(trained.history, {"loss", "accuracy"}, logdir + "/curves.svg");
  const auto [losses] = trained.history.collect("loss");
  const nlohmann::ordered_json result{{"dtype", args.dtype}, {"device", to_string(context.device())},
      {"ranks", world.size()}, {"logdir", logdir}, {"steps", trained.elapsed.steps},
      {"train_loss_first", losses.front()}, {"train_loss_last", losses.back()},
      {"test_loss", tested.entry_value("loss")}, {"test_accuracy", tested.entry_value("accuracy")},
      {"train_seconds", trained.elapsed.time()},
      {"images_per_second", stopwatch.steps_per_second() * static_cast<double>(args.batch)}};
  return sample::print_result(result);
}

void add_options(CLI::App& app, Arguments& args) {
  args.add_to(app);
  app.add_option("--data", args.data, "folder with CIFAR-10's binary version; without it, random images");
  sample::add_count(app, "--features", args.features, "features of the first stage");
  sample::add_count(app, "--batch", args.batch, "images per step, over all ranks");
  app.add_option("--learning-rate", args.learning_rate, "peak learning rate")->capture_default_str();
  app.add_option("--ema", args.ema, "decay of the weights' moving average in each step")->capture_default_str();
  app.add_option("--evaluate-every", args.evaluate_every, "steps between tests of the average; 0: only at the end")
      ->check(sample::kAtLeast0)
      ->capture_default_str();
  app.add_flag("--eager", args.eager, "run each op as it is called, without recording, for debugging");
  app.add_flag("--program", args.program, "show the ops of a step, their times and floors, without training");
  app.add_flag(
      "--arguments", args.arguments, "with --program: and what each op's arguments are called, and their axes");
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run("Trains a ResNet-18 on CIFAR-10.", "resnet", add_options, train, argc, argv);
}
