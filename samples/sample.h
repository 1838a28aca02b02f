#pragma once

// Shared by the samples: options, placement on devices and ranks, timing, and exit.

#include <giro/giro.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace sample {

inline const auto kCount = CLI::Range(1, 1'000'000'000), kAtLeast0 = CLI::Range(0, 1'000'000'000);

struct Options {
  std::int64_t steps = 1'000, checkpoint_every = 250;
  std::string dtype = "f32", device = "auto", partition = "auto", logdir;
  std::uint64_t seed = 0;
  bool resume = false;

  void add_to(CLI::App& app, const CLI::Range& range_of_steps = kCount) {
    app.add_option("--steps", steps, "steps to train")->check(range_of_steps)->capture_default_str();
    app.add_option("--dtype", dtype,
           "compute type of the model, whose parameters stay f32: f32; tf32 on a GPU; bf16 and f16, also on a CPU "
           "that supports it")
        ->check(CLI::IsMember({"f32", "tf32", "bf16", "f16"}))
        ->capture_default_str();
    app.add_option("--device", device, "auto, cpu or cuda")->capture_default_str();
    app.add_option("--partition", partition,
           "data: each rank gets an equal part of each batch; zero: also of the optimizer's moments; single; auto")
        ->check(CLI::IsMember({"auto", "data", "zero", "single"}))
        ->capture_default_str();
    app.add_option("--checkpoint-every", checkpoint_every, "steps between checkpoints; 0: none")
        ->check(kAtLeast0)
        ->capture_default_str();
    app.add_option("--seed", seed, "seed of initial parameters, batch order, dropout and augmentation")
        ->capture_default_str();
    app.add_option("--logdir", logdir, "where history, curves and checkpoints go [logdir/1, logdir/2, ...]");
    app.add_flag("--resume", resume, "resume the run in --logdir, or the newest");
  }

  giro::Schedule saving() const {
    return checkpoint_every == 0 ? giro::never() : giro::every(checkpoint_every) | giro::last();
  }
};

inline giro::Schedule every_or_never(std::int64_t steps) { return steps == 0 ? giro::never() : giro::every(steps); }

// The ranks that mpirun or torchrun has started, each with its GPU, or only this process.
struct Environment {
  giro::World world;
  giro::DeviceContext context;
  std::shared_ptr<const giro::Partitioner> partitioner;  // null: this process trains alone

  explicit Environment(const Options& options) : context(choose(options.device, world)) {
    if (options.partition == "single" && world.size() > 1) {
      throw giro::Error(
          giro::ErrorCode::invalid_argument, "--partition single: " + std::to_string(world.size()) +
                                                 " processes were started, expected one, or --partition data");
    }
    if (options.partition == "single" || (options.partition == "auto" && world.size() == 1)) return;
    partitioner = options.partition == "zero" ? giro::zero_data_parallel(world, context.device())
                                              : giro::data_parallel(world, context.device());
  }

 private:
  static giro::Device choose(const std::string& name, const giro::World& world) {
    const giro::Discovery discovery = giro::discover_devices();
    if (name != "auto") return giro::parse_device(name, discovery);
    if (world.device().is_cpu() && world.is_primary()) {
      std::printf("on the CPU: %s\n", discovery.no_cuda_reason.c_str());
    }
    return world.device();
  }
};

// Times the training steps, without other work between them and without the first two steps, which record. As tasks:
// whenever that other work is due, `pause` comes before it and `restart` after it. Both are also due with `begins()`,
// and `pause` in the last step.
class Stopwatch {
 public:
  // For a run that resumes from the newest checkpoint in a directory, if there is one.
  explicit Stopwatch(const std::string& checkpoints)
      : second_step_(std::max<std::int64_t>(giro::CheckpointStore(checkpoints).latest_steps(), 0) + 1) {}

  giro::Schedule begins() const { return giro::after(second_step_) & !giro::after(second_step_ + 1); }
  auto pause() {
    return [this](const giro::TrainState& state, const giro::Elapsed& elapsed) {
      state.stream().synchronize();
      if (!std::exchange(is_running_, false)) return;
      seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count();
      steps_ += elapsed.steps - first_step_;
    };
  }
  auto restart() {
    return [this](const giro::TrainState& state, const giro::Elapsed& elapsed) {
      if (elapsed.steps < second_step_) return;
      state.stream().synchronize();
      is_running_ = true;
      first_step_ = elapsed.steps;
      begin_ = Clock::now();
    };
  }
  // NaN (null in JSON) after fewer than three steps.
  double steps_per_second() const {
    return steps_ == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(steps_) / seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t second_step_, first_step_ = 0, steps_ = 0;
  bool is_running_ = false;
  Clock::time_point begin_;
  double seconds_ = 0;
};

// Prints how to resume a run that a signal has ended. Returns the exit code.
inline int stopped(
    int signal, std::int64_t steps, const Environment& environment, const std::string& logdir, bool has_checkpoints) {
  if (environment.world.is_primary()) {
    std::printf("stopped after %lld steps", static_cast<long long>(steps));
    if (has_checkpoints) std::printf(": continue with --resume --logdir %s", logdir.c_str());
    std::printf("\n");
  }
  return 128 + signal;
}

// Prints the line that scripts read. Returns the exit code.
inline int print_result(const nlohmann::ordered_json& result) {
  std::printf("result: %s\n", result.dump().c_str());
  return 0;
}

// An option that is a count, from 1 on.
template <class Count>
void add_count(CLI::App& app, const char* name, Count& count, const char* about) {
  app.add_option(name, count, about)->check(kCount)->capture_default_str();
}

// Parses the command line and runs the sample. Errors are exceptions with a one-line message.
template <class Arguments, class Train>
int run(const char* about, const char* name, void (*add_options)(CLI::App&, Arguments&), const Train& train, int argc,
    char** argv) {
  Arguments args;
  CLI::App app(about, name);
  add_options(app, args);
  try {
    app.parse(argc, argv);
    return train(args);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 2;
  }
}

}  // namespace sample
