// The overhead of a chunk of jaxloop's outer loop. A chunk is one step, which increments a counter.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <utility>

#include <giro/callbacks/jaxloop/outer_loop.h>
#include <giro/kernels/nn/layers.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>

#include "tests/support/tensor_ops.h"

namespace {

namespace jl = giro::jaxloop;

class CountingStep : public jl::Step {
 public:
  CountingStep() : Step(giro::nn::dense(1), {.train = true, .device = giro::Device::cpu()}) {}
  giro::Logs run(giro::TrainState& state, const giro::Batch&) override {
    giro::increment(state.at("step"), 1, state.stream());
    return giro::logs();
  }
};

giro::Dataset one_row() {
  return giro::Dataset({{"x", giro::HostArray(std::vector<float>(1), {1, 1})}})
      .repeat()
      .batch(1)
      .to(giro::Device::cpu());
}

// Reports the seconds per chunk as the counter "chunk".
void count_chunks(benchmark::State& benchmark, std::int64_t chunks) {
  benchmark.counters["chunk"] = benchmark::Counter(
      static_cast<double>(chunks), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

constexpr std::int64_t kChunks = 1'000;

void outer_loop_chunks(benchmark::State& benchmark) {
  const giro::Dataset data = one_row();
  for (auto _ : benchmark) {
    CountingStep step;
    jl::TrainLoop train_loop(step);
    auto result = jl::OuterLoop({.train_loop = &train_loop})(
        step.initialize_model({{"x", {1, 1}}}),
        {.train_dataset = data, .train_total_steps = kChunks, .train_loop_steps = 1});
    benchmark::DoNotOptimize(result.state);
  }
  count_chunks(benchmark, kChunks);
}

// The same steps in one plain loop.
void plain_steps(benchmark::State& benchmark) {
  const giro::Dataset data = one_row();
  for (auto _ : benchmark) {
    CountingStep step;
    auto result = giro::loop(step.initialize_model({{"x", {1, 1}}}), data, {{giro::every(1), step.recorded()}},
                             {.stop = giro::at(kChunks)});
    benchmark::DoNotOptimize(result.state);
  }
  count_chunks(benchmark, kChunks);
}

BENCHMARK(outer_loop_chunks);
BENCHMARK(plain_steps);

}  // namespace
