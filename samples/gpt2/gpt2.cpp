// Trains GPT-2 on text or on files of tokens, and generates. Run it with samples/gpt2.sh.

#include <giro/giro.h>
#include <giro/kernels/device_speed.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "../sample.h"
#include "generate.h"
#include "hugging_face.h"
#include "model.h"

namespace nn = giro::nn;

namespace {

struct Arguments : sample::Options {
  Gpt2 model{.vocabulary = 256};
  std::vector<std::string> data;
  int bytes_per_token = 1, accumulate = 1;
  std::string load, save, profile, prompt = "\n";
  std::vector<std::int32_t> prompt_ids;
  std::int64_t batch = 4, warmup = 100, log_every = 10, validate_every = 250, sample_every = 250, generate = 0;
  double learning_rate = 6e-4, weight_decay = 0.1, temperature = 0.8;
  bool program = false, arguments = false;

  bool are_bytes() const { return bytes_per_token == 1 && model.vocabulary <= 256; }
};

[[noreturn]] void reject(const std::string& what) { throw giro::Error(giro::ErrorCode::invalid_argument, what); }

// The ids of the prompt, which must fit the model's context.
std::vector<std::int32_t> ids_of_prompt(const Arguments& args) {
  const bool is_text = args.prompt_ids.empty();
  if (is_text && !args.are_bytes()) {
    reject("--prompt: text cannot be a prompt for a vocabulary of " + std::to_string(args.model.vocabulary) +
           " and tokens of " + std::to_string(args.bytes_per_token) + " bytes, expected --prompt-ids");
  }
  const std::string option = is_text ? "--prompt: " : "--prompt-ids: ";
  std::vector<std::int32_t> ids = args.prompt_ids;
  if (is_text) ids.assign(args.prompt.begin(), args.prompt.end());
  if (ids.empty()) reject(option + "it is empty, expected at least one byte");
  for (std::int32_t& id : ids) {
    if (is_text) id &= 0xFF;  // a char may have a sign
    if (id >= 0 && id < args.model.vocabulary) continue;
    reject(option + (is_text ? "its byte " : "") + std::to_string(id) + " is not an id in a vocabulary of " +
           std::to_string(args.model.vocabulary));
  }
  if (static_cast<std::int64_t>(ids.size()) > args.model.context) {
    reject(option + "it has " + std::to_string(ids.size()) + " tokens, expected at most " +
           std::to_string(args.model.context) + ", the context");
  }
  return ids;
}

// Prints text for bytes, else numbers.
void print_tokens(const std::vector<std::int32_t>& ids, bool are_bytes) {
  for (const std::int32_t id : ids) {
    if (are_bytes) {
      std::putchar(id);
    } else {
      std::printf("%d ", id);
    }
  }
  std::putchar('\n');
}

giro::Dataset windows(const Arguments& args, double begin, double end) {
  return giro::data::tokens(args.data, {.context = args.model.context,
                                           .bytes_per_token = args.bytes_per_token,
                                           .vocabulary = args.model.vocabulary,
                                           .begin = begin,
                                           .end = end});
}

// The loss for a batch of windows: each token is predicted from those before it.
nn::Var loss_of(const Gpt2& model, nn::Scope s, const giro::Batch& batch) {
  const nn::Var tokens = batch["tokens"];
  const nn::Var logits = model(s, slice(tokens, {.axis = 1, .end = model.context}));
  return mean(softmax_cross_entropy(logits, slice(tokens, {.axis = 1, .begin = 1})));
}

double megabytes(const giro::TrainState& state, const std::string& collection) {
  double bytes = 0;
  for (const giro::Leaf& leaf : state.flatten(collection)) bytes += static_cast<double>(leaf.value.bytes());
  return bytes / 1e6;
}

// Generates with the weights of a file or a run, and saves them in Hugging Face's format.
int use_weights(const Arguments& args, const sample::Environment& environment) {
  if (args.load.empty() != args.resume) reject("--steps 0: expected weights from either --load or a run, --resume");
  if (args.generate == 0 && args.save.empty()) reject("--steps 0: nothing to do, expected --generate or --save");
  const std::vector<std::int32_t> prompt = ids_of_prompt(args);
  if (!environment.world.is_primary()) return 0;
  Generator generator(args.model, environment.context, giro::parse_precision(args.dtype));
  if (args.resume) {
    const std::string run = args.logdir.empty() ? giro::run_directory("", {.resume = true}) : args.logdir;
    const giro::LoadedCheckpoint checkpoint = giro::load_checkpoint(run + "/model");
    hugging_face::load_params(generator.state(), checkpoint.leaves, checkpoint.path);
  } else {
    hugging_face::load(args.load, generator.state());
  }
  if (!args.save.empty()) hugging_face::save(args.save, generator.state());
  if (args.generate > 0) print_tokens(generator(prompt, args.generate, args.temperature, args.seed), args.are_bytes());
  return 0;
}

// Returns the exit code.
int run(const Arguments& args) {
  sample::Environment environment(args);
  if (args.steps == 0) return use_weights(args, environment);
  if (args.data.empty()) reject("--data is required, except with --steps 0");
  const auto& [world, context, partitioner] = environment;
  const giro::Precision precision = giro::parse_precision(args.dtype);
  const Gpt2& model = args.model;
  std::vector<std::int32_t> prompt;
  if (args.generate > 0 || args.sample_every > 0) prompt = ids_of_prompt(args);

  // 1. Windows of the files, which stay on disk.
  const giro::Dataset train_windows = windows(args, 0, 0.95).shuffle(args.seed).repeat();
  const giro::Dataset held_out = windows(args, 0.95, 1);

  // 2. The state. Matrices decay, biases and scales do not.
  const auto optimizer = giro::optim::accumulate(args.accumulate,
      giro::optim::clip_by_global_norm(
          1, giro::optim::adamw(
                 giro::optim::warmup_cosine(args.learning_rate, args.warmup,
                     std::max<std::int64_t>(args.steps / args.accumulate - args.warmup, 1), 0, args.learning_rate / 10),
                 {.b2 = 0.95, .weight_decay = args.weight_decay, .decay_mask = [](const std::string& path) {
                    return path.ends_with("kernel") || path.ends_with("embedding");
                  }})));
  auto state = giro::TrainState::create([&](nn::Scope s, const giro::Batch& batch) { return loss_of(model, s, batch); },
      optimizer,
      {.inputs = train_windows.spec(),
          .seed = args.seed,
          .context = context,
          .partitioner = partitioner,
          .precision = precision});
  if (!args.load.empty()) hugging_face::load(args.load, state);

  // 3. The steps.
  auto update = [&](giro::TrainState& state, const giro::Batch& batch) {
    auto loss = state.value_and_grad([&](auto& params) { return loss_of(model, params, batch); });
    state.apply_gradients();
    return loss;
  };
  auto train_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    return giro::logs().add_metric("loss", update(state, batch));
  });
  auto silent_step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
    update(state, batch);
    return giro::Logs();
  });
  auto valid_step = giro::jit([&](const giro::TrainState& state, const giro::Batch& batch) {
    return giro::logs().add_metric("loss", loss_of(model, state.params(), batch));
  });

  // 4. The batches, which a thread prefetches.
  if (args.batch == 0 && args.resume) reject("--batch auto: to resume, give the size that the run started with");
  const std::int64_t batch = args.batch > 0 ? args.batch : giro::find_batch_size(train_step, state, train_windows);
  auto train_data = train_windows.batch(batch).partition(partitioner).prefetch(2);
  const std::int64_t ranks = world.size();
  const std::int64_t held_out_batch = std::min(batch, held_out.num_rows() / ranks * ranks);
  if (held_out_batch == 0) reject("too little text for validation");
  auto valid_data = held_out.batch(held_out_batch, true).partition(partitioner);

  std::optional<Generator> generator;
  const auto generate = [&](const giro::TrainState& state, std::int64_t count) {
    if (!generator) generator.emplace(model, context, precision);
    generator->set_params(state);
    print_tokens((*generator)(prompt, count, args.temperature, args.seed), args.are_bytes());
  };

  // 5. Memory and FLOPs.
  std::int64_t parameters = 0;
  for (const giro::Leaf& leaf : state.flatten("params")) parameters += leaf.value.count();
  const std::int64_t tokens = batch * model.context;
  // Kaplan et al., "Scaling laws for neural language models", 2020, plus the products of attention.
  const double flops_of_token = 6.0 * static_cast<double>(parameters - model.context * model.width) +
                                12.0 * static_cast<double>(model.layers * model.width * model.context);
  const double peak =
      giro::product_speed(context.stream(), giro::compute_dtype(precision), giro::math_mode_of(precision)) *
      world.size();
  const std::size_t temporaries = train_step.memory(state, *train_data.begin()).temporaries;  // on all ranks
  if (world.is_primary()) {
    std::printf(
        "%lld parameters; %lld tokens per step; on each rank: parameters %.0f MB, gradients %.0f MB, optimizer "
        "%.0f MB, temporaries of a step %.0f MB\n",
        static_cast<long long>(parameters), static_cast<long long>(tokens), megabytes(state, "params"),
        megabytes(state, "grads"), megabytes(state, "opt_state"), static_cast<double>(temporaries) / 1e6);
  }
  if (args.program) {
    const giro::Program program = train_step.profile(state, *train_data.begin());
    if (world.is_primary()) std::fputs(program.text(args.arguments).c_str(), stdout);
    return 0;
  }

  // 6. The loop.
  const std::string logdir = giro::run_directory(args.logdir, {.resume = args.resume, .partitioner = partitioner});
  const giro::Schedule logging = giro::every(args.log_every == 0 ? args.steps : args.log_every) | giro::last();
  const giro::Schedule validating = sample::every_or_never(args.validate_every);
  const giro::Schedule sampling = args.sample_every == 0 ? giro::never() : giro::every_end(args.sample_every);
  sample::Stopwatch stopwatch(logdir + "/model");
  const giro::Schedule others = validating | args.saving() | sampling | stopwatch.begins() | giro::last();
  auto validate = giro::inner_loop("valid", [&](giro::TrainState& state) {
    return giro::loop(std::move(state), valid_data, {{giro::every(1), valid_step}}, {.stop = giro::at(50)});
  });
  std::vector<giro::Task<giro::TrainState, giro::Batch>> tasks{
      {logging, train_step},
      {!logging, silent_step},
      {others, stopwatch.pause()},
      {validating, validate.preserves_state()},
      {args.saving(), giro::backup_and_restore(logdir + "/model")},
      {giro::every(1), giro::keras_bar({.total = args.steps, .always_stateful = true})},
      {sampling,
          [&](const giro::TrainState& state) {
            if (!world.is_primary()) return;
            std::printf("\n");
            generate(state, 200);
          }},
      {others, stopwatch.restart()},
  };
  if (!args.profile.empty()) {
    tasks.emplace_back(
        giro::every(1), giro::profile({.num_profile_steps = args.steps, .first_profile = 0, .logdir = args.profile}));
  }
  auto trained = giro::loop(std::move(state), train_data, tasks, {.stop = giro::at(args.steps)});
  if (trained.interrupted != 0) {
    return sample::stopped(trained.interrupted, trained.elapsed.steps, environment, logdir, args.checkpoint_every > 0);
  }

  // 7. The files and the result.
  if (!world.is_primary()) return 0;
  if (!args.save.empty()) hugging_face::save(args.save, trained.state);
  if (args.generate > 0) generate(trained.state, args.generate);
  trained.history.write_csv(logdir + "/history.csv");
  giro::write_curves(trained.history, {"loss"}, logdir + "/curves.svg");
  const auto [losses] = trained.history.collect("loss");
  const double tokens_per_second = stopwatch.steps_per_second() * static_cast<double>(tokens);
  const nlohmann::ordered_json result{{"parameters", parameters}, {"dtype", args.dtype},
      {"device", to_string(context.device())}, {"ranks", world.size()}, {"logdir", logdir},
      {"steps", trained.elapsed.steps}, {"train_loss_first", losses.front()}, {"train_loss_last", losses.back()},
      {"train_seconds", trained.elapsed.time()}, {"tokens_per_second", tokens_per_second},
      {"share_of_peak", tokens_per_second * flops_of_token / peak}};
  return sample::print_result(result);
}

void add_options(CLI::App& app, Arguments& args) {
  const auto& at_least_0 = sample::kAtLeast0;
  args.add_to(app, at_least_0);
  app.add_option("--data", args.data, "text or token files; not needed with --steps 0");
  app.add_option("--bytes-per-token", args.bytes_per_token, "1: the files hold text; 2 or 4: ids, little-endian")
      ->check(CLI::IsMember({1, 2, 4}))
      ->capture_default_str();
  sample::add_count(app, "--vocabulary", args.model.vocabulary, "number of token ids; 50257 for GPT-2's");
  sample::add_count(app, "--layers", args.model.layers, "transformer blocks");
  sample::add_count(app, "--heads", args.model.heads, "attention heads");
  sample::add_count(app, "--width", args.model.width, "features per token");
  sample::add_count(app, "--context", args.model.context, "tokens that the model sees at once");
  app.add_option("--dropout", args.model.dropout, "in [0, 1)")->check(CLI::Range(0.0, 0.999))->capture_default_str();
  app.add_flag("--remat", args.model.remat, "recompute each block in the backward pass to save memory");
  app.add_option("--batch", args.batch, "windows per step, over all ranks; auto: the largest power of two that fits")
      ->transform(CLI::Transformer(std::map<std::string, std::string>{{"auto", "0"}}))
      ->check(at_least_0)
      ->capture_default_str();
  sample::add_count(app, "--accumulate", args.accumulate, "steps per parameter update");
  app.add_option("--learning-rate", args.learning_rate, "peak learning rate")->capture_default_str();
  sample::add_count(app, "--warmup", args.warmup, "updates over which the learning rate rises");
  app.add_option("--weight-decay", args.weight_decay, "applied to matrices")->capture_default_str();
  app.add_option("--log-every", args.log_every, "steps between logged losses; 0: only the first and the last")
      ->check(at_least_0)
      ->capture_default_str();
  app.add_option("--validate-every", args.validate_every, "steps between validations on the last 5 % of each file")
      ->check(at_least_0)
      ->capture_default_str();
  app.add_option("--sample-every", args.sample_every, "steps between generated texts")
      ->check(at_least_0)
      ->capture_default_str();
  app.add_option("--generate", args.generate,
         "tokens to generate at the end; with --steps 0, without training. Where the context ends, the model goes on "
         "from the last half of it")
      ->check(at_least_0);
  auto* const prompt =
      app.add_option("--prompt", args.prompt, "text for generated texts to continue, if the data is text");
  app.add_option("--prompt-ids", args.prompt_ids, "ids for them to continue, such as 15496 995")->excludes(prompt);
  app.add_option("--temperature", args.temperature, "sampling temperature; 0: always the most likely token")
      ->capture_default_str();
  app.add_option("--load", args.load, "initial weights: Hugging Face's model.safetensors of GPT-2");
  app.add_option("--save", args.save, "where to write the weights, in Hugging Face's format");
  app.add_option("--profile", args.profile, "directory for a trace of the training, for https://ui.perfetto.dev");
  app.add_flag("--program", args.program, "show the ops of a step, their times and floors, without training");
  app.add_flag(
      "--arguments", args.arguments, "with --program: and what each op's arguments are called, and their axes");
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      "Trains GPT-2 on text or on files of tokens, and generates.", "gpt2", add_options, run, argc, argv);
}
