// The loop's own overhead, with a trivial step and state, and eight callbacks.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <ranges>
#include <string>
#include <vector>

#include <giro/callbacks/keras_bar.h>
#include <giro/callbacks/tensorboard.h>
#include <giro/kernels/nn/var.h>
#include <giro/loop/log/log_ring.h>
#include <giro/loop/loop.h>
#include <giro/runtime/stream.h>

#include "loop/run/journal.h"
#include "tests/support/temporary_directory.h"

namespace {

using giro::every;
using Tasks = std::vector<giro::Task<std::int64_t, std::int64_t>>;

constexpr std::int64_t kSteps = 100'000;
constexpr int kCallbacks = 8;

void step(std::int64_t& state) { ++state; }
void observe(const giro::Elapsed& elapsed) { benchmark::DoNotOptimize(elapsed.steps); }
giro::Logs step_and_log(std::int64_t& state) {
  ++state;
  const auto value = static_cast<double>(state);
  return giro::logs()
      .add_metric("loss", value)
      .add_metric("accuracy", value)
      .add_metric("learning_rate", value)
      .add_metric("gradient_norm", value);
}

// Callbacks due every hundred steps or less often, each with its own schedule.
Tasks seldom(int count) {
  Tasks tasks;
  for (int i = 0; i < count; ++i) tasks.emplace_back(every(100 * (i + 1)), step);
  return tasks;
}
Tasks seldom_and(giro::Schedule schedule, giro::Callback<std::int64_t, std::int64_t> callback) {
  Tasks tasks = seldom(kCallbacks - 1);
  tasks.emplace_back(std::move(schedule), std::move(callback));
  return tasks;
}

// Reports the seconds per step as the counter "step".
void run(benchmark::State& benchmark, const Tasks& tasks, std::int64_t steps = kSteps) {
  for (auto _ : benchmark) {
    auto result = giro::loop(std::int64_t{0}, std::views::iota(std::int64_t{0}, steps), tasks);
    benchmark::DoNotOptimize(result.state);
  }
  benchmark.counters["step"] = benchmark::Counter(
      static_cast<double>(steps), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void all_seldom(benchmark::State& benchmark) { run(benchmark, seldom(kCallbacks)); }
void one_each_step(benchmark::State& benchmark) { run(benchmark, seldom_and(every(1), step)); }
void all_each_step(benchmark::State& benchmark) {
  Tasks tasks;
  for (int i = 0; i < kCallbacks; ++i) tasks.emplace_back(every(1), step);
  run(benchmark, tasks);
}
void observer_each_step(benchmark::State& benchmark) { run(benchmark, seldom_and(every(1), observe)); }
void four_entries_each_step(benchmark::State& benchmark) { run(benchmark, seldom_and(every(1), step_and_log)); }
void callable_schedule(benchmark::State& benchmark) {
  run(benchmark, seldom_and([](const giro::Elapsed& elapsed) { return elapsed.steps % 100 == 0; }, step));
}

// The same with a progress bar that shows the logs. Subtract the time of four_entries_each_step to get the bar's cost.
void bar_each_step(benchmark::State& benchmark, const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(
      path.empty() ? std::tmpfile() : std::fopen(path.c_str(), "w"), std::fclose);
  if (out == nullptr) return benchmark.SkipWithError("no file to draw on");
  Tasks tasks = seldom_and(every(1), step_and_log);
  tasks.front() = {every(1), giro::keras_bar({.total = kSteps, .out = out.get()})};
  run(benchmark, tasks);
}

// The same with the logs written as TensorBoard scalars, into a directory in memory.
void tensorboard_each_step(benchmark::State& benchmark) {
  const giro::test::TemporaryDirectory dir;
  Tasks tasks = seldom_and(every(1), step_and_log);
  tasks.front() = {every(1), giro::tensorboard(dir.path())};
  run(benchmark, tasks);
}

// As in the README: a checkpoint schedule that includes the last step.
void all_seldom_and_last(benchmark::State& benchmark) {
  Tasks tasks = seldom(kCallbacks - 1);
  tasks.emplace_back(every(1'000) | giro::last(), step);
  run(benchmark, tasks);
}
void one_each_step_and_last(benchmark::State& benchmark) {
  Tasks tasks = seldom_and(every(1), step);
  tasks.front() = {every(1'000) | giro::last(), step};
  run(benchmark, tasks);
}

// The host's time per step to move four scalars logged on the device from their row to the history. The rows are
// written before the clock starts. range(0) steps arrive at a time, as if from one launch.
void four_scalars_through_the_journal(benchmark::State& benchmark) {
  using giro::DType;
  const giro::Stream stream(giro::Device::cpu());
  float values[4] = {1, 2, 3, 4};
  std::int64_t call = 0;
  giro::Logs logs;
  for (int i = 0; i < 4; ++i) {
    const giro::Tensor scalar(&values[i], DType::f32, {}, giro::Device::cpu());
    logs.add_metric(std::string(1, static_cast<char>('a' + i)), giro::nn::Var(scalar, stream));
  }
  const auto ring = giro::LogRing::create(logs, giro::Tensor(&call, DType::i64, {}, giro::Device::cpu()), stream);
  const std::int64_t rows = ring->capacity() / 2;
  giro::Elapsed elapsed;
  std::int64_t steps = 0;
  for (auto _ : benchmark) {
    giro::History history;
    giro::Outputs outputs;
    giro::detail::Current running;
    giro::detail::Journal journal(history, outputs, running);
    giro::Logs none;
    double seconds = 0;
    for (int round = 0; round < 16; ++round) {
      for (std::int64_t i = 0; i < rows; ++i) ring->publish(logs);
      const auto begin = std::chrono::steady_clock::now();
      for (std::int64_t i = 0; i < rows; ++i) {
        journal.add(ring);
        journal.end_step(elapsed, none);
        if (i % benchmark.range(0) == 0) journal.drain(false, giro::Elapsed::now);
        elapsed.count(1);
      }
      journal.drain(true, giro::Elapsed::now);
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    benchmark.SetIterationTime(seconds);
    steps = 16 * rows;
  }
  benchmark.counters["step"] = benchmark::Counter(
      static_cast<double>(steps), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK(all_seldom);
BENCHMARK(all_seldom_and_last);
BENCHMARK(one_each_step_and_last);
BENCHMARK(four_scalars_through_the_journal)->Arg(1)->Arg(32)->UseManualTime()->Iterations(20);
BENCHMARK(one_each_step);
BENCHMARK(all_each_step);
BENCHMARK(observer_each_step);
BENCHMARK(four_entries_each_step);
BENCHMARK(callable_schedule);
BENCHMARK_CAPTURE(bar_each_step, null, "/dev/null");
BENCHMARK_CAPTURE(bar_each_step, file, "");
BENCHMARK(tensorboard_each_step);

}  // namespace
