// checkpoint_stream: the complete example of Flax's training-API proposal. The training is a stream of checkpoints, and
// a pipeline processes each.
//
//   checkpoint_stream [directory with MNIST's IDX files [total steps [directory for checkpoints and summaries]]]

#include <giro/flip.h>
#include <giro/giro.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace flip = giro::flip;
namespace nn = giro::nn;

namespace {

nn::Var categorical_cross_entropy(const nn::Var& outputs, const giro::Batch& batch) {
  return mean(softmax_cross_entropy(outputs, batch["label"]));
}

int train(const std::string& data, std::int64_t n_steps, const std::string& output_dir) {
  const giro::Device device = giro::discover_devices().best();
  const auto train_data = giro::data::mnist("train", {.dir = data}).shuffle(0).repeat().batch(32).to(device);
  const auto eval_data = giro::data::mnist("test", {.dir = data}).repeat().batch(32).to(device);
  const auto model = nn::sequential(
      nn::scale(1 / 255.f), nn::flatten(), nn::dense(128, {.activation = giro::Activation::relu}), nn::dense(10));

  const std::string checkpoints = output_dir + "/checkpoints";
  const auto print = [](const std::string& line) { std::printf("%s\n", line.c_str()); };

  flip::TrainLoop train_loop({.task = {.model = model,
                                  .optimizer = giro::optim::sgd(0.1, {.momentum = 0.9}),
                                  .loss = categorical_cross_entropy,
                                  .data = train_data},
      .n_steps_per_checkpoint = 25,
      .n_steps = n_steps,
      .init = flip::CheckpointFileReader(checkpoints),
      .device = device,
      .log = print});

  auto process_checkpoint = flip::serial(
      flip::EvalLoop({.task = {.metrics = {{"lnpp", categorical_cross_entropy}}, .data = eval_data}, .n_steps = 10}),
      flip::SummaryLogger(),                             //
      flip::SummaryWriter(output_dir + "/tensorboard"),  //
      flip::CheckpointFileWriter(checkpoints),           //
      flip::LowestCheckpointFileWriter(checkpoints, "lnpp", "eval", print));

  for (const auto& checkpoint : train_loop) process_checkpoint(checkpoint);
  return train_loop.interrupted() == 0 ? 0 : 128 + train_loop.interrupted();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : giro::data::MnistOptions().dir,
        argc > 2 ? std::strtoll(argv[2], nullptr, 10) : 100, argc > 3 ? argv[3] : "logdir/checkpoint_stream");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_stream: %s\n", error.what());
    return 2;
  }
}
