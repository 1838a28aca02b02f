// Trains a recurrent language model as a stream of checkpoints: the complete example of Flax's training-API proposal.
// Run it with samples/rnnlm.sh.

#include <giro/flip.h>
#include <giro/giro.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sample.h"

namespace flip = giro::flip;
namespace nn = giro::nn;

namespace {

struct Arguments : sample::Options {
  std::vector<std::string> data;
  std::int64_t batch = 32, length = 256, width = 128, layers = 2;
  double learning_rate = 0.1, dropout = 0.1;
  bool carry = false;

  Arguments() { checkpoint_every = 100; }
};

constexpr double kTrained = 0.95;  // of each file; the rest is held out

// Logits for each byte of a text, from the bytes before it. The first is predicted from a 0 or, if the text continues
// another (`goes_on`), from the last byte of that one, which then comes first in the tokens.
struct Rnnlm {
  std::int64_t width, layers;
  double dropout;
  bool goes_on, carries;
  std::int64_t vocabulary = 256;

  nn::Var operator()(nn::Scope& s, const nn::Var& tokens) const {
    const std::int64_t length = tokens.shape()[1];
    const nn::Var before = goes_on ? slice(tokens, {.axis = 1, .end = length - 1})
                                   : slice(pad(tokens, {.axis = 1, .before = 1}), {.axis = 1, .end = length});
    nn::Var x = nn::embedding(vocabulary, width, nn::normal(1))(s, before);
    for (std::int64_t i = 0; i < layers; ++i) x = nn::lstm(width, {.carry = carries})(s, x);
    return nn::dense(vocabulary)(s, nn::dropout(dropout)(s, x));
  }
};

// Texts that continue from batch to batch: row r of a batch begins with the last byte of row r of the previous batch.
// Of `batch` equal shares of the files, row r reads share r, then share r + 1, and so on; the first follows the last.
class ContinuedText final : public giro::RowSource {
 public:
  ContinuedText(const std::vector<std::string>& paths, std::int64_t batch, std::int64_t length)
      : batch_(batch), length_(length) {
    for (const std::string& path : paths) {
      const auto file = giro::posix_file_system()->open(path);
      const std::size_t before = text_.size(), bytes = static_cast<std::size_t>(kTrained * double(file->size()));
      text_.resize(before + bytes);
      text_.resize(before + file->read_at(0, text_.data() + before, bytes));
    }
    windows_ = (static_cast<std::int64_t>(text_.size()) - 1) / length / batch;
    if (windows_ >= 1) return;
    throw giro::Error(giro::ErrorCode::invalid_argument, "--carry: " + std::to_string(text_.size()) +
                                                             " bytes to train on, expected more than " +
                                                             std::to_string(batch * length) + ", the bytes of a batch");
  }

  std::int64_t num_rows() const override { return batch_ * batch_ * windows_; }
  giro::DType dtype() const override { return giro::DType::i32; }
  giro::Shape row_shape() const override { return {length_ + 1}; }
  void read(std::span<const std::int64_t> rows, void* to) const override {
    auto* out = static_cast<std::int32_t*>(to);
    for (const std::int64_t row : rows) {
      const std::int64_t window = (row % batch_ * windows_ + row / batch_) % (batch_ * windows_);
      const auto* const begin = text_.data() + window * length_;
      out = std::copy(begin, begin + length_ + 1, out);
    }
  }

 private:
  std::int64_t batch_, length_, windows_ = 0;  // windows_: in a row's share
  std::vector<unsigned char> text_;
};

// The losses that a resumed run had written before.
giro::History read_history(const std::string& path, std::int64_t steps) {
  giro::History history;
  if (steps == 0) return history;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // the names of the columns
  if (!file) {
    throw giro::Error(
        giro::ErrorCode::io, path + ": cannot be read, expected the losses of " + std::to_string(steps) + " steps");
  }
  giro::Elapsed elapsed;
  double loss = 0;
  for (int number = 2; std::getline(file, line); ++number) {
    long long done = 0, samples = 0;
    int end = -1;
    std::sscanf(line.c_str(), "%lld,%lld,%lf,%lf%n", &done, &samples, &elapsed.date, &loss, &end);
    if (end != static_cast<int>(line.size())) {
      throw giro::Error(giro::ErrorCode::invalid_argument,
          path + ": line " + std::to_string(number) + " is \"" + line + "\", expected steps,samples,time,loss");
    }
    elapsed.steps = done;
    elapsed.samples = samples;
    if (done <= steps) history.commit(elapsed, giro::logs().add_metric("loss", loss));
  }
  if (history.size() == 0 || history.back().elapsed.steps != steps) {
    throw giro::Error(giro::ErrorCode::invalid_argument, path + ": it does not reach step " + std::to_string(steps));
  }
  return history;
}

// Returns the exit code.
int train(const Arguments& args) {
  const auto reject = [](const std::string& what) { throw giro::Error(giro::ErrorCode::invalid_argument, what); };
  const sample::Environment environment(args);
  const auto& [world, context, partitioner] = environment;
  if (args.carry && partitioner) reject("--carry: the ranks of a partition cannot carry, expected --partition single");
  if (args.checkpoint_every == 0)
    reject("--checkpoint-every: it is 0, expected 1 or more: the loop runs over checkpoints");

  const auto tokens = [&](double begin, double end) {
    return giro::data::tokens(
        args.data, {.context = args.length - (args.carry ? 0 : 1), .bytes_per_token = 1, .begin = begin, .end = end});
  };
  const giro::Dataset rows =
      args.carry ? giro::Dataset({{"tokens", std::make_shared<ContinuedText>(args.data, args.batch, args.length)}})
                 : tokens(0, kTrained).shuffle(args.seed);
  const auto train_data = rows.repeat().batch(args.batch).partition(partitioner).prefetch(2);
  const giro::Dataset held_out = tokens(kTrained, 1);
  const std::int64_t eval_batch = std::min(args.batch, held_out.num_rows() / world.size() * world.size());
  if (eval_batch == 0) reject("too little text for evaluation");
  const auto eval_data = held_out.repeat().batch(eval_batch).partition(partitioner);
  Rnnlm model{args.width, args.layers, args.dropout, args.carry, args.carry};
  const auto cross_entropy = [&](const nn::Var& outputs, const giro::Batch& batch) {
    return mean(softmax_cross_entropy(outputs, slice(batch["tokens"], {.axis = 1, .begin = args.carry ? 1 : 0})));
  };

  const std::string logdir = giro::run_directory(args.logdir, {.resume = args.resume, .partitioner = partitioner});
  const std::string checkpoints = logdir + "/checkpoints";
  const auto print = [&](const std::string& line) {
    if (world.is_primary()) std::printf("%s\n", line.c_str());
  };
  flip::TrainLoop train_loop({.task = {.model = model,
                                  .optimizer = giro::optim::sgd(args.learning_rate, {.momentum = 0.9}),
                                  .loss = cross_entropy,
                                  .data = train_data},
      .n_steps_per_checkpoint = args.checkpoint_every,
      .n_steps = args.steps,
      .init = flip::CheckpointFileReader(checkpoints),
      .seed = args.seed,
      .device = context.device(),
      .partitioner = partitioner,
      .precision = giro::parse_precision(args.dtype),
      .log = print});

  model.carries = false;  // the held-out text does not continue the training text
  auto process_checkpoint = flip::serial(
      flip::EvalLoop({.task = {.metrics = {{"lnpp", cross_entropy}}, .data = eval_data, .model = model}, .n_steps = 2}),
      flip::SummaryLogger(),                         //
      flip::SummaryWriter(logdir + "/tensorboard"),  //
      flip::CheckpointFileWriter(checkpoints),       //
      flip::LowestCheckpointFileWriter(checkpoints, "lnpp", "eval", print));

  // The history is written before the checkpoint, so that a resumed run finds everything before it.
  giro::History history = read_history(logdir + "/history.csv", train_loop.step());
  double seconds = 0, steps = 0;
  for (bool is_first = true; const auto& checkpoint : train_loop) {
    history.commit(checkpoint.elapsed, giro::logs().add_metric("loss", checkpoint.loss));
    if (world.is_primary()) history.write_csv(logdir + "/history.csv");
    process_checkpoint(checkpoint);
    if (!std::exchange(is_first, false)) {  // the first includes the recording of the step
      seconds += checkpoint.elapsed_time;
      steps += static_cast<double>(checkpoint.n_completed_steps);
    }
  }
  if (train_loop.interrupted() != 0) {
    return sample::stopped(train_loop.interrupted(), train_loop.step(), environment, logdir, true);
  }

  if (!world.is_primary()) return 0;
  giro::write_curves(history, {"loss"}, logdir + "/curves.svg");
  std::int64_t parameters = 0;
  for (const giro::Leaf& leaf : giro::load_checkpoint(checkpoints).leaves) {
    if (leaf.path.starts_with("params/")) parameters += leaf.value.count();
  }
  const std::vector<double> losses = history.column("loss");
  const nlohmann::ordered_json result{{"parameters", parameters}, {"dtype", args.dtype},
      {"device", to_string(context.device())}, {"ranks", world.size()}, {"logdir", logdir},
      {"steps", train_loop.step()}, {"train_loss_first", losses.front()}, {"train_loss_last", losses.back()},
      {"train_seconds", history.back().elapsed.time()},
      {"tokens_per_second", steps * static_cast<double>(args.batch * args.length) / seconds}};
  return sample::print_result(result);
}

void add_options(CLI::App& app, Arguments& args) {
  args.add_to(app);
  app.add_option("--data", args.data, "text files")->required();
  sample::add_count(app, "--batch", args.batch, "texts per step, over all ranks");
  app.add_option("--length", args.length, "bytes per text")->check(CLI::Range(2, 1'000'000))->capture_default_str();
  app.add_flag("--carry", args.carry, "each text continues the one at its place in the previous batch");
  sample::add_count(app, "--width", args.width, "features per byte");
  sample::add_count(app, "--layers", args.layers, "LSTM layers");
  app.add_option("--dropout", args.dropout, "in [0, 1)")->check(CLI::Range(0.0, 0.999))->capture_default_str();
  app.add_option("--learning-rate", args.learning_rate, "of sgd with momentum")->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      "Trains a recurrent language model as a stream of checkpoints.", "rnnlm", add_options, train, argc, argv);
}
