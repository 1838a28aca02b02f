// Measures how asynchronous checkpoints slow down training: the same steps with a save every N steps and without saves,
// alternating in one run. See training_saves_bench --help for the options, and tests/bench/README.md for what is
// compared.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <giro/giro.h>

namespace {

namespace fs = std::filesystem;
namespace nn = giro::nn;
using Clock = std::chrono::steady_clock;

constexpr int kLayers = 8;

struct Options {
  std::int64_t bytes = 1'500'000'000, batch = 16, every = 100, saves = 3;
  int rounds = 2;
  std::string device = "cpu", directory = ".";

  // Half an interval of steps follows the last save, which is written meanwhile.
  std::int64_t steps() const { return saves * every + every / 2; }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The width of square dense layers such that adamw's state, with its two moments, has about `bytes` bytes.
std::int64_t width_of(std::int64_t bytes) {
  return std::max<std::int64_t>(std::llround(std::sqrt(static_cast<double>(bytes) / (3.0 * 4 * kLayers))), 1);
}

nn::Layer model(std::int64_t width) {
  std::vector<nn::Layer> layers;
  for (int i = 0; i < kLayers; ++i) layers.push_back(nn::dense(width, {.activation = giro::Activation::relu}));
  return nn::sequential(std::move(layers));
}

giro::Dataset random_rows(std::int64_t width, std::int64_t batch, giro::Device device) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(batch * width));
  for (float& value : x) value = normal(random);
  return giro::Dataset({{"x", giro::HostArray(std::move(x), {batch, width})}}).repeat().batch(batch).to(device);
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        device_(options.device == "cuda" ? giro::Device::cuda() : giro::Device::cpu()),
        width_(width_of(options.bytes)),
        data_(random_rows(width_, options.batch, device_)),
        state_(giro::TrainState::create(model(width_), giro::optim::adamw(1e-4),
                                        {.inputs = data_.spec(), .seed = 1, .context = device_})) {
    std::string name = (fs::path(options.directory) / "training_saves_bench_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a directory in " + options.directory);
    directory_ = name;
    train(/*saves=*/false, 3);  // records the step
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  std::int64_t bytes() const {
    std::size_t bytes = 0;
    for (const auto& collection : state_.collections()) bytes += collection->saved() ? collection->bytes().bytes() : 0;
    return static_cast<std::int64_t>(bytes);
  }

  void round() {
    const std::int64_t steps = options_.steps();
    double with = 0, without = 0;
    without += train(false, steps);
    with += train(true, steps);
    with += train(true, steps);
    without += train(false, steps);
    ratios_.push_back(with / without);
    of_a_step_.push_back(without / static_cast<double>(2 * steps));
  }

  void print() const {
    fmt::print("a state of {} bytes on {}, {} rounds of twice {} steps with {} saves, and as many without\n", bytes(),
               to_string(device_), ratios_.size(), options_.steps(), options_.saves);
    fmt::print("a step without saves           {:.6f} s\n", median(of_a_step_));
    fmt::print("the loop waits for a save      {:.6f} s, at most {:.6f} s\n", median(stalls_),
               *std::max_element(stalls_.begin(), stalls_.end()));
    fmt::print("training time with and without {:.4f} (between {:.4f} and {:.4f})\n", median(ratios_),
               *std::min_element(ratios_.begin(), ratios_.end()), *std::max_element(ratios_.begin(), ratios_.end()));
  }

 private:
  // Returns the time of the whole loop in seconds, including its wait for the last save.
  double train(bool saves, std::int64_t steps) {
    std::vector<Clock::time_point> begins, ends;  // of the steps
    const auto note_begin = [&](const giro::Elapsed&) { begins.push_back(Clock::now()); };
    const auto note_end = [&](const giro::TrainState& state) {
      state.stream().synchronize();
      ends.push_back(Clock::now());
    };
    const auto begin = Clock::now();
    auto result = saves
                      ? giro::loop(std::move(state_), data_,
                                   {{giro::every(1), note_begin},
                                    {giro::every(1), step_},
                                    {giro::every(1), note_end},
                                    {giro::every_end(options_.every),
                                     giro::checkpoint(directory_, {.overwrite = true, .asynchronous = true})}},
                                   {.stop = giro::at(steps)})
                      : giro::loop(std::move(state_), data_,
                                   {{giro::every(1), note_begin}, {giro::every(1), step_}, {giro::every(1), note_end}},
                                   {.stop = giro::at(steps)});
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    state_ = std::move(result.state);
    for (std::int64_t save = options_.every; saves && save < steps; save += options_.every) {
      const auto next = static_cast<std::size_t>(save);  // the step after the save
      stalls_.push_back(std::chrono::duration<double>(begins.at(next) - ends.at(next - 1)).count());
    }
    return seconds;
  }

  Options options_;
  giro::Device device_;
  std::int64_t width_;
  giro::Dataset data_;
  giro::TrainState state_;
  std::string directory_;
  std::vector<double> ratios_, of_a_step_, stalls_;

  static giro::Logs run_step(giro::TrainState& state, const giro::Batch& batch) {
    const nn::Var loss = state.value_and_grad([&](const nn::Params& params) {
      return mean(square(subtract(state.model()(params, batch["x"]), batch["x"])));
    });
    state.apply_gradients();
    return giro::logs().add_metric("loss", loss);
  }
  decltype(giro::jit(&run_step)) step_ = giro::jit(&run_step);
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains with asynchronous checkpoints and without, in turn.", "training_saves_bench");
  Options options;
  app.add_option("--bytes", options.bytes, "of the state, about; needs 3 times as much memory, and twice the room")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(std::int64_t{1} << 12, std::int64_t{1} << 40))
      ->capture_default_str();
  const auto add = [&](const char* name, auto& value, int least, const char* what) {
    app.add_option(name, value, what)->check(CLI::Range(least, 1'000'000))->capture_default_str();
  };
  add("--batch", options.batch, 1, "rows");
  add("--every", options.every, 2, "steps from one save to the next");
  add("--saves", options.saves, 1, "of each training");
  add("--rounds", options.rounds, 1, "each trains twice with saves and twice without");
  app.add_option("--device", options.device)->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str();
  app.add_option("--dir", options.directory, "on the disk to save to; a directory is made in it and removed")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    Bench bench(options);
    for (int i = 0; i < options.rounds; ++i) bench.round();
    bench.print();
  } catch (const std::exception& error) {
    fmt::print(stderr, "training_saves_bench: {}\n", error.what());
    return 1;
  }
}
