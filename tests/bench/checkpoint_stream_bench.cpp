// The cost of a stream of checkpoints if their tensors are not used: a checkpoint at every step, compared with a plain
// loop over the same small steps. "step" is the time of one step.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <utility>
#include <vector>

#include <giro/callbacks/flip/train_loop.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>

namespace {

namespace nn = giro::nn;

constexpr std::int64_t kSteps = 10'000;

giro::flip::TrainTask task() {
  const giro::HostArray x(std::vector<float>(1), {1, 1});
  return {.model = nn::dense(1),
          .optimizer = giro::optim::sgd(0.1),
          .loss = [](const nn::Var& outputs, const giro::Batch& batch) { return mean(subtract(outputs, batch["x"])); },
          .data = giro::Dataset({{"x", x}}).repeat().batch(1).to(giro::Device::cpu())};
}

void count_steps(benchmark::State& benchmark) {
  benchmark.counters["step"] = benchmark::Counter(
      static_cast<double>(kSteps), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void checkpoint_stream(benchmark::State& benchmark) {
  for (auto _ : benchmark) {
    giro::flip::TrainLoop train_loop(
        {.task = task(), .n_steps_per_checkpoint = 1, .n_steps = kSteps, .device = giro::Device::cpu()});
    for (const auto& checkpoint : train_loop) benchmark::DoNotOptimize(checkpoint.loss);
  }
  count_steps(benchmark);
}

void plain_loop(benchmark::State& benchmark) {
  const giro::flip::TrainTask what = task();
  for (auto _ : benchmark) {
    const auto step = giro::jit([&](giro::TrainState& state, const giro::Batch& batch) {
      const nn::Var loss = state.value_and_grad(
          [&](const nn::Params& params) { return what.loss(what.model(params, batch["x"]), batch); });
      state.apply_gradients();
      return giro::logs().add_metric("loss", loss);
    });
    auto result =
        giro::loop(giro::TrainState::create(what.model, what.optimizer,
                                            {.inputs = (*what.data.begin()).spec(), .context = giro::Device::cpu()}),
                   what.data, {{giro::every(1), step}}, {.stop = giro::at(kSteps)});
    benchmark::DoNotOptimize(result.state);
  }
  count_steps(benchmark);
}

BENCHMARK(checkpoint_stream);
BENCHMARK(plain_loop);

}  // namespace
