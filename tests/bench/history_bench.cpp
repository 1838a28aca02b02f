// The host's cost of logging: making, copying and committing the logs of a step, and reading the history.

#include <benchmark/benchmark.h>

#include <cstdint>

#include <giro/loop/log/history.h>

namespace giro {
namespace {

constexpr std::int64_t kRecords = 1'000'000;

Logs four_entries(double value) {
  return logs()
      .add_loss("loss", value)
      .add_metric("accuracy", value)
      .add_metric("gradient_norm", value)
      .add_stateful_metric("learning_rate", value);
}

Elapsed elapsed_of(std::int64_t step) {
  return {.steps = step, .samples = 32 * step, .date = 1e9 + static_cast<double>(step), .date_start = 1e9};
}

History history_of(std::int64_t records) {
  History history;
  const Logs logs = four_entries(0.5);
  for (std::int64_t i = 0; i < records; ++i) history.commit(elapsed_of(i), logs);
  return history;
}

void make_logs(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(four_entries(0.5));
}
BENCHMARK(make_logs);

// What a recorded step does: it copies the logs from its recording.
void copy_logs(benchmark::State& state) {
  const Logs logs = four_entries(0.5);
  for (auto _ : state) benchmark::DoNotOptimize(Logs(logs));
}
BENCHMARK(copy_logs);

void merge_logs(benchmark::State& state) {
  const Logs step = four_entries(0.5);
  for (auto _ : state) {
    Logs logs;
    logs.merge(step);
    benchmark::DoNotOptimize(logs);
  }
}
BENCHMARK(merge_logs);

void commit(benchmark::State& state) {
  const Logs logs = four_entries(0.5);
  for (auto _ : state) {
    History history;
    for (std::int64_t i = 0; i < state.range(0); ++i) history.commit(elapsed_of(i), logs);
    benchmark::DoNotOptimize(history);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(commit)->Arg(10'000)->Arg(kRecords)->Unit(benchmark::kMicrosecond);

// Every other step logs one more entry.
void commit_alternating(benchmark::State& state) {
  const Logs even = four_entries(0.5);
  const Logs odd = Logs(even).add_metric("evaluated", 1);
  for (auto _ : state) {
    History history;
    for (std::int64_t i = 0; i < state.range(0); ++i) history.commit(elapsed_of(i), i % 2 == 0 ? even : odd);
    benchmark::DoNotOptimize(history);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(commit_alternating)->Arg(10'000)->Arg(kRecords)->Unit(benchmark::kMicrosecond);

void collect(benchmark::State& state) {
  const History history = history_of(kRecords);
  for (auto _ : state) {
    benchmark::DoNotOptimize(history.collect("loss", "accuracy", "gradient_norm", "learning_rate"));
  }
}
BENCHMARK(collect)->Unit(benchmark::kMillisecond);

void collect_elapsed(benchmark::State& state) {
  const History history = history_of(kRecords);
  for (auto _ : state) benchmark::DoNotOptimize(history.collect("steps", "time"));
}
BENCHMARK(collect_elapsed)->Unit(benchmark::kMillisecond);

void iterate(benchmark::State& state) {
  const History history = history_of(kRecords);
  for (auto _ : state) {
    double sum = 0;
    for (const auto& [elapsed, logs] : history) sum += logs.value(0);
    benchmark::DoNotOptimize(sum);
  }
}
BENCHMARK(iterate)->Unit(benchmark::kMillisecond);

void latest(benchmark::State& state) {
  const History history = history_of(kRecords);
  for (auto _ : state) benchmark::DoNotOptimize(history.latest());
}
BENCHMARK(latest);

}  // namespace
}  // namespace giro
