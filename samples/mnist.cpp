// Trains a classifier on MNIST-format images: giro in eight steps. Run it with samples/mnist.sh.

#include <giro/giro.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace nn = giro::nn;

namespace {

struct Arguments {
  std::string model = "linear", dtype = "f32", device = "auto", partition = "auto",
              data = giro::data::MnistOptions().dir, logdir = "", profile = "";
  std::int64_t batch = 32, steps = 5'000, log_every = 1, checkpoint_every = 1'000;
  std::uint64_t seed = 0;
  bool resume = false, program = false;
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

// This one line lets the same program train on several GPUs or in several CPU processes.
std::shared_ptr<const giro::Partitioner> make_partitioner(
    const std::string& name, giro::World& world, giro::Device device) {
  if (name == "single" && world.size() > 1) {
    throw giro::Error(giro::ErrorCode::invalid_argument,
        "--partition single: " + std::to_string(world.size()) + " processes were started, expected one, or data");
  }
  if (name == "single" || (name == "auto" && world.size() == 1)) return nullptr;
  return name == "zero" ? giro::zero_data_parallel(world, device) : giro::data_parallel(world, device);
}

giro::Schedule every_or_never(std::int64_t steps) { return steps == 0 ? giro::never() : giro::every(steps); }

// Returns the exit code.
int train(const Arguments& args) {
  // The ranks that mpirun or torchrun has started, each with its GPU, or only this process.
  giro::World world;
  const giro::Discovery discovery = giro::discover_devices();
  const giro::Device device = args.device == "auto" ? world.device() : giro::parse_device(args.device, discovery);
  if (args.device == "auto" && device.is_cpu() && world.is_primary()) {
    std::printf("training on the CPU: %s\n", discovery.no_cuda_reason.c_str());
  }
  const auto partitioner = make_partitioner(args.partition, world, device);

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
          .context = device,
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
    if (world.is_primary()) std::fputs(program.text().c_str(), stdout);
    return 0;
  }

  // 5. The loop: schedules and what they trigger. If it is killed, start it again with --resume to continue.
  const std::string logdir = giro::run_directory(args.logdir, {.resume = args.resume, .partitioner = partitioner});
  const giro::Schedule logging = every_or_never(args.log_every);
  const giro::Schedule saving =
      args.checkpoint_every == 0 ? giro::never() : giro::every(args.checkpoint_every) | giro::last();
  std::vector<giro::Task<giro::TrainState, giro::Batch>> tasks{
      {logging, train_step},
      {!logging, silent_step},
      {saving, giro::backup_and_restore(logdir + "/model")},
      {giro::every(1), giro::keras_bar({.total = args.steps})},
  };
  if (!args.profile.empty()) {
    tasks.emplace_back(
        giro::every(1), giro::profile({.num_profile_steps = args.steps, .first_profile = 0, .logdir = args.profile}));
  }
  auto trained = giro::loop(std::move(state), train_data, tasks, {.stop = giro::at(args.steps)});
  if (trained.interrupted != 0) {
    if (!world.is_primary()) return 128 + trained.interrupted;
    std::printf("stopped after %lld steps", static_cast<long long>(trained.elapsed.steps));
    if (args.checkpoint_every > 0) std::printf(": go on with --resume --logdir %s", logdir.c_str());
    std::printf("\n");
    return 128 + trained.interrupted;
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
  const giro::Logs test = giro::aggregate(evaluated.history, "mean");

  // 7. The files and the result of the run.
  if (!world.is_primary()) return 0;
  if (const std::string trouble = giro::disk_cache_trouble(); !trouble.empty()) {
    std::printf("kernels and plans are not kept for the next run: %s\n", trouble.c_str());
  }
  trained.history.write_csv(logdir + "/history.csv");
  if (args.log_every > 0) giro::write_curves(trained.history, {"loss", "accuracy"}, logdir + "/curves.svg");
  const nlohmann::ordered_json result{{"model", args.model}, {"dtype", args.dtype}, {"device", to_string(device)},
      {"logdir", logdir}, {"steps", trained.elapsed.steps}, {"test_accuracy", test.entry_value("accuracy")},
      {"test_loss", test.entry_value("loss")}, {"train_seconds", train_seconds},
      {"steps_per_second", static_cast<double>(trained.elapsed.steps) / train_seconds}};
  std::printf("result: %s\n", result.dump().c_str());
  return 0;
}

}  // namespace

// 8. Errors are exceptions with a message of one line.
int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a classifier on MNIST-format images.");
  app.add_option("--model", args.model, "linear or cnn")
      ->check(CLI::IsMember({"linear", "cnn"}))
      ->capture_default_str();
  app.add_option("--dtype", args.dtype,
         "what the model is computed in, with f32 parameters: f32; tf32 on a GPU; bf16 and f16, also on a CPU that "
         "has it")
      ->check(CLI::IsMember({"f32", "tf32", "bf16", "f16"}))
      ->capture_default_str();
  app.add_option("--device", args.device, "auto, cpu or cuda")->capture_default_str();
  app.add_option("--partition", args.partition,
         "data: each rank has an even part of each batch; zero: and of adamw's moments; single; auto")
      ->check(CLI::IsMember({"auto", "data", "zero", "single"}))
      ->capture_default_str();
  app.add_option("--batch", args.batch, "samples a step, of all ranks together")->capture_default_str();
  app.add_option("--steps", args.steps, "steps to train")->check(CLI::Range(1, 1'000'000'000))->capture_default_str();
  app.add_option("--log-every", args.log_every, "steps between two with loss and accuracy in the history; 0: never")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--checkpoint-every", args.checkpoint_every, "steps between two checkpoints; 0: none")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--seed", args.seed, "of initial parameters and batch order")->capture_default_str();
  app.add_option("--data", args.data, "directory with the four IDX files, gzipped or not")->capture_default_str();
  app.add_option("--logdir", args.logdir, "where history, curves and checkpoints go [logdir/1, logdir/2, ...]");
  app.add_option("--profile", args.profile, "directory for a trace of the training, for https://ui.perfetto.dev");
  app.add_flag("--program", args.program, "show the ops of a step, what each takes and its floor; train nothing");
  app.add_flag("--resume", args.resume, "go on with the run in --logdir, or the newest");
  try {
    app.parse(argc, argv);
    return train(args);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mnist: %s\n", error.what());
    return 2;
  }
}
