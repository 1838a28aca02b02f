// Trains a recurrent language model as a stream of checkpoints: the complete example of Flax's training-API proposal.
// Run it with samples/rnnlm.sh.

#include <giro/flip.h>
#include <giro/giro.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace flip = giro::flip;
namespace nn = giro::nn;

namespace {

struct Arguments {
  std::vector<std::string> data;
  std::string device = "auto", logdir;
  std::int64_t batch = 32, length = 256, width = 128, layers = 2, steps = 1'000, checkpoint_every = 100;
  double learning_rate = 0.1, dropout = 0.1;
  std::uint64_t seed = 0;
  bool resume = false;
};

// Logits for each token of a text, from those before it: the first is predicted from a 0.
struct Rnnlm {
  std::int64_t vocabulary = 256, width = 128, layers = 2;
  double dropout = 0.1;

  nn::Var operator()(nn::Scope& s, const nn::Var& tokens) const {
    const nn::Var before = slice(pad(tokens, {.axis = 1, .before = 1}), {.axis = 1, .end = tokens.shape()[1]});
    nn::Var x = nn::embedding(vocabulary, width, nn::normal(1))(s, before);
    for (std::int64_t i = 0; i < layers; ++i) x = nn::lstm(width)(s, x);
    return nn::dense(vocabulary)(s, nn::dropout(dropout)(s, x));
  }
};

nn::Var categorical_cross_entropy(const nn::Var& outputs, const giro::Batch& batch) {
  return mean(softmax_cross_entropy(outputs, batch["tokens"]));
}

// Returns the exit code.
int train(const Arguments& args) {
  const giro::Discovery discovery = giro::discover_devices();
  const giro::Device device = giro::parse_device(args.device, discovery);
  if (args.device == "auto" && device.is_cpu()) {
    std::printf("training on the CPU: %s\n", discovery.no_cuda_reason.c_str());
  }
  const auto data = [&](double begin, double end) {
    return giro::data::tokens(
        args.data, {.context = args.length - 1, .bytes_per_token = 1, .begin = begin, .end = end});
  };
  const auto train_data = data(0, 0.95).shuffle(args.seed).repeat().batch(args.batch).prefetch(2);
  const auto eval_data = data(0.95, 1).repeat().batch(args.batch);
  const Rnnlm model{.width = args.width, .layers = args.layers, .dropout = args.dropout};

  const std::string logdir = giro::run_directory(args.logdir, {.resume = args.resume});
  const std::string checkpoints = logdir + "/checkpoints";
  const auto print = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  flip::TrainLoop train_loop({.task = {.model = model,
                                  .optimizer = giro::optim::sgd(args.learning_rate, {.momentum = 0.9}),
                                  .loss = categorical_cross_entropy,
                                  .data = train_data},
      .n_steps_per_checkpoint = args.checkpoint_every,
      .n_steps = args.steps,
      .init = flip::CheckpointFileReader(checkpoints),
      .seed = args.seed,
      .device = device,
      .log = print});

  auto process_checkpoint = flip::serial(
      flip::EvalLoop({.task = {.metrics = {{"lnpp", categorical_cross_entropy}}, .data = eval_data}, .n_steps = 2}),
      flip::SummaryLogger(),                         //
      flip::SummaryWriter(logdir + "/tensorboard"),  //
      flip::CheckpointFileWriter(checkpoints),       //
      flip::LowestCheckpointFileWriter(checkpoints, "lnpp", "eval", print));

  std::vector<double> losses;
  double seconds = 0, steps = 0;
  for (const auto& checkpoint : train_loop) {
    process_checkpoint(checkpoint);
    losses.push_back(checkpoint.loss);
    seconds += checkpoint.elapsed_time;
    steps += static_cast<double>(checkpoint.n_completed_steps);
  }
  if (train_loop.interrupted() != 0) return 128 + train_loop.interrupted();
  if (losses.empty()) return 0;  // the run was over
  const nlohmann::ordered_json result{{"device", to_string(device)}, {"logdir", logdir}, {"steps", args.steps},
      {"train_loss_first", losses.front()}, {"train_loss_last", losses.back()}, {"train_seconds", seconds},
      {"tokens_per_second", steps * static_cast<double>(args.batch * args.length) / seconds}};
  std::printf("result: %s\n", result.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a recurrent language model as a stream of checkpoints.");
  const auto count = CLI::Range(1, 1'000'000'000);
  app.add_option("--data", args.data, "files of text")->required();
  app.add_option("--batch", args.batch, "texts a step")->check(count)->capture_default_str();
  app.add_option("--length", args.length, "bytes of a text")->check(CLI::Range(2, 1'000'000))->capture_default_str();
  app.add_option("--width", args.width, "features of a byte")->check(count)->capture_default_str();
  app.add_option("--layers", args.layers, "LSTMs")->check(count)->capture_default_str();
  app.add_option("--dropout", args.dropout, "in [0, 1)")->check(CLI::Range(0.0, 0.999))->capture_default_str();
  app.add_option("--steps", args.steps, "steps to train")->check(count)->capture_default_str();
  app.add_option("--learning-rate", args.learning_rate, "of sgd with momentum")->capture_default_str();
  app.add_option("--device", args.device, "auto, cpu or cuda")->capture_default_str();
  app.add_option("--checkpoint-every", args.checkpoint_every, "steps between two checkpoints")
      ->check(count)
      ->capture_default_str();
  app.add_option("--seed", args.seed, "of initial parameters, batch order and dropout")->capture_default_str();
  app.add_option("--logdir", args.logdir, "where checkpoints and summaries go [logdir/1, logdir/2, ...]");
  app.add_flag("--resume", args.resume, "go on with the run in --logdir, or the newest");
  try {
    app.parse(argc, argv);
    return train(args);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rnnlm: %s\n", error.what());
    return 2;
  }
}
