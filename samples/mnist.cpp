// Trains a classifier on MNIST-format images: giro in eight steps. Run it with samples/mnist.sh.

#include <giro/giro.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "sample.h"

namespace nn = giro::nn;

namespace {

// Also --steps, --device and so on, which all samples have.
struct Arguments : sample::Options {
  std::string model = "linear", data = giro::data::MnistOptions().dir, profile = "";
  std::int64_t batch = 32, log_every = 1;
  bool program = false, arguments = false;

  Arguments() {
    steps = 5'000;
    checkpoint_every = 1'000;
  }
};

// 1. A model is a plain value: layers, one after the other. It holds no parameters.
nn::Layer make_model(const std::string& name) {
  if (name == "linear") return nn::sequential(nn::scale(1 / 255.f), nn::flatten(), nn::dense(10));
  return nn::sequential(nn::scale(1 / 255.f),                        //
      nn::conv(32, {3, 3}, {.activation = giro::Activation::relu}),  //
      nn::avg_pool({2, 2}),                                          //
      nn::conv(64, {3, 3}, {.activation = giro::Activation::relu}),  //
      nn::avg_pool({2, 2}),                                          //
      nn::flatten(),                                                 //
      nn::dense(256, {.activation = giro::Activation::relu}),        //
      nn::dense(10));
}

// Returns the exit code.
int train(const Arguments& args) {
  // The ranks that mpirun or torchrun has started, each with its GPU, or only this process. The partitioner lets the
  // same program train on several GPUs or in several CPU processes.
  const sample::Environment environment(args);
  const auto& [world, context, partitioner] = environment;
  const giro::Device device = context.device();

  // 2. The data is on the device; each step gathers its batch there, in an order determined by the seed.
  const giro::data::MnistOptions options{.dir = args.data};
  auto train_data = giro::data::mnist("train", options)
                        .shuffle(args.seed)
                        .repeat()
                        .batch(args.batch)
                        .partition(partitioner)
                        .to(device);
  auto test_rows = giro::data::mnist("test", options);
  const std::int64_t test_batch = std::min(1'000 / world.size() * world.size(), static_cast<int>(test_rows.num_rows()));
  auto test_data = test_rows.batch(test_batch).partition(partitioner).to(device);

  // 3. The state: parameters, gradients, the optimizer's moments, the step. It lives on the device, and determines the
  // precision that the model computes in.
  const nn::Layer model = make_model(args.model);
  auto state = giro::TrainState::create(model, giro::optim::adamw(1e-3),
      {.inputs = train_data.spec(),
          .seed = args.seed,
          .context = context,
          .partitioner = partitioner,
          .precision = giro::parse_precision(args.dtype)});

  // 4. A step is recorded when it first runs and replayed from then on. The one that logs nothing is a separate
  // recording.
  auto update = [&](giro::TrainState& state, const giro::Batch& batch) {
    auto loss_and_logits = state.value_and_grad([&](auto& params) {
      auto logits = model(params, batch["image"]);
      return std::pair{mean(softmax_cross_entropy(logits, batch["label"])), logits};
    });
    state.apply_gradients();
    return loss_and_logits;
  };
  auto train_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    auto [loss, logits] = update(state, batch);
    return giro::logs().add_metric("loss", loss).add_metric("accuracy", accuracy(logits, batch["label"]));
  });
  auto silent_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    update(state, batch);
    return giro::Logs();
  });

  if (args.program) {
    const giro::Program program = train_step.profile(state, *train_data.begin());
    if (world.is_primary()) std::fputs(program.text(args.arguments).c_str(), stdout);
    return 0;
  }

  // 5. The loop: schedules and what they trigger. If it is killed, start it again with --resume to continue.
  const std::string logdir = giro::run_directory(args.logdir, {.resume = args.resume, .partitioner = partitioner});
  const giro::Schedule logging = sample::every_or_never(args.log_every);
  std::vector<giro::Task<giro::TrainState, giro::Batch>> tasks{
      {logging, train_step},
      {!logging, silent_step},
      {args.saving(), giro::backup_and_restore(logdir + "/model")},
      {giro::every(1), giro::keras_bar({.total = args.steps})},
  };
  if (!args.profile.empty()) {
    tasks.emplace_back(
        giro::every(1), giro::profile({.num_profile_steps = args.steps, .first_profile = 0, .logdir = args.profile}));
  }
  auto trained = giro::loop(std::move(state), train_data, tasks, {.stop = giro::at(args.steps)});
  if (trained.interrupted != 0) {
    return sample::stopped(trained.interrupted, trained.elapsed.steps, environment, logdir, args.checkpoint_every > 0);
  }
  const double train_seconds = trained.elapsed.time();

  // 6. Evaluation: a loop over the test set with a step that changes nothing.
  auto test_step = giro::jit([&](const giro::TrainState& state, const giro::Batch& batch) {
    auto logits = model(state.params(), batch["image"]);
    return giro::logs()
        .add_metric("loss", mean(softmax_cross_entropy(logits, batch["label"])))
        .add_metric("accuracy", accuracy(logits, batch["label"]));
  });
  const auto evaluated = giro::loop(std::move(trained.state), test_data, {{giro::every(1), test_step}});
  const giro::Logs test = giro::aggregate(evaluated.history);

  // 7. The files and the result of the run.
  if (!world.is_primary()) return 0;
  if (const std::string failure = giro::disk_cache_error(); !failure.empty()) {
    std::printf("kernels and plans are not kept for the next run: %s\n", failure.c_str());
  }
  trained.history.write_csv(logdir + "/history.csv");
  if (args.log_every > 0) giro::write_curves(trained.history, {"loss", "accuracy"}, logdir + "/curves.svg");
  const nlohmann::ordered_json result{{"model", args.model}, {"dtype", args.dtype}, {"device", to_string(device)},
      {"logdir", logdir}, {"steps", trained.elapsed.steps}, {"test_accuracy", test.entry_value("accuracy")},
      {"test_loss", test.entry_value("loss")}, {"train_seconds", train_seconds},
      {"steps_per_second", static_cast<double>(trained.elapsed.steps) / train_seconds}};
  return sample::print_result(result);
}

void add_options(CLI::App& app, Arguments& args) {
  args.add_to(app);
  app.add_option("--model", args.model, "linear or cnn")
      ->check(CLI::IsMember({"linear", "cnn"}))
      ->capture_default_str();
  app.add_option("--batch", args.batch, "samples per step, over all ranks")->capture_default_str();
  app.add_option("--log-every", args.log_every, "steps between records of loss and accuracy in the history; 0: never")
      ->check(sample::kAtLeast0)
      ->capture_default_str();
  app.add_option("--data", args.data, "directory with the four IDX files, gzipped or not")->capture_default_str();
  app.add_option("--profile", args.profile, "directory for a trace of the training, for https://ui.perfetto.dev");
  app.add_flag("--program", args.program, "show the ops of a step, their times and floors, without training");
  app.add_flag(
      "--arguments", args.arguments, "with --program: and what each op's arguments are called, and their axes");
}

}  // namespace

// 8. Errors are exceptions with a one-line message.
int main(int argc, char** argv) {
  return sample::run("Trains a classifier on MNIST-format images.", "mnist", add_options, train, argc, argv);
}
