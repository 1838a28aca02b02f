// The overhead of a GPU graph beyond the work of its kernels: per node, per launch, per branch, and between two
// kernels. Times are measured on the device, except in the cases called host_*. Without a GPU every case is skipped
// with a message. With manual times Google Benchmark has no wall-time limit: it would iterate until fractions of
// microseconds add up to half a second. So the number of iterations is fixed.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <giro/runtime/device.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/state.h>

#include "tests/bench/launch_gap.h"
#include "tests/support/tensor_ops.h"

namespace {

constexpr std::int64_t kMax = 128;  // the most nodes in a chain and steps in a launch
constexpr int kStepNodes = 6;       // as many as a linear step has
constexpr int kRounds = 1'000;

// A state with two counters, incremented by single-thread ops.
struct Counters {
  Counters() : state(giro::Device::cuda()), other(state.stream().device()) {
    for (const char* name : {"a", "b"}) state.add(name, {{"", giro::DType::i64, {}}});
  }
  // Queues a chain of `ops` increments.
  void count(const char* name, std::int64_t ops, const giro::Stream& stream) const {
    for (std::int64_t i = 0; i < ops; ++i) giro::increment(state.at(name), 1, stream);
  }
  giro::Graph record(const std::function<void()>& body) const { return giro::Graph::record(state.stream(), body); }

  giro::State state;
  giro::Stream other;
};

bool skips(benchmark::State& benchmark) {
  const giro::Discovery found = giro::discover_devices();
  if (found.best().is_cuda()) return false;
  benchmark.SkipWithError(("no GPU: " + found.no_cuda_reason).c_str());
  return true;
}

// Reports the time of `times` replays in a row, divided by `parts`.
void time_replays(benchmark::State& benchmark, const giro::Graph& graph, const giro::Stream& stream, std::int64_t times,
                  double parts) {
  graph.replay(stream, times);
  stream.synchronize();
  for (auto _ : benchmark) {
    benchmark.SetIterationTime(graph.replay_time(stream, times) * static_cast<double>(times) / parts);
  }
}

// The time per node of a chain, in a graph of one launch.
void node_of_chain(benchmark::State& benchmark) {
  if (skips(benchmark)) return;
  const Counters counters;
  const std::int64_t nodes = benchmark.range(0);
  const giro::Graph graph = counters.record([&] { counters.count("a", nodes, counters.state.stream()); });
  time_replays(benchmark, graph, counters.state.stream(), 1, static_cast<double>(nodes));
}

// The time per step of six nodes, with several steps in one launch.
void step_of_launch(benchmark::State& benchmark) {
  if (skips(benchmark)) return;
  const Counters counters;
  const giro::Graph graph = counters.record([&] { counters.count("a", kStepNodes, counters.state.stream()); });
  time_replays(benchmark, graph, counters.state.stream(), benchmark.range(0), static_cast<double>(benchmark.range(0)));
}

// The host's time per step of six nodes, with several steps in one launch.
void host_step_of_launch(benchmark::State& benchmark) {
  if (skips(benchmark)) return;
  const Counters counters;
  const giro::Stream& stream = counters.state.stream();
  const giro::Graph graph = counters.record([&] { counters.count("a", kStepNodes, stream); });
  const std::int64_t steps = benchmark.range(0);
  graph.replay(stream, steps);
  stream.synchronize();
  for (auto _ : benchmark) {
    const auto begin = std::chrono::steady_clock::now();
    graph.replay(stream, steps);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    stream.synchronize();
    benchmark.SetIterationTime(took.count() / static_cast<double>(steps));
  }
}

// Two chains of equal length: one after the other, or as two branches between a first and a last node.
void two_chains(benchmark::State& benchmark, bool as_branches) {
  if (skips(benchmark)) return;
  const Counters counters;
  const giro::Stream& stream = counters.state.stream();
  const std::int64_t nodes = benchmark.range(0);
  giro::Event fork(stream), join(stream);
  const giro::Graph graph = counters.record([&] {
    counters.count("a", 1, stream);
    if (as_branches) {
      fork.record(stream);
      counters.other.wait(fork);
      counters.count("b", nodes, counters.other);
      counters.count("a", nodes, stream);
      join.record(counters.other);
      stream.wait(join);
    } else {
      counters.count("b", nodes, stream);
      counters.count("a", nodes, stream);
    }
    counters.count("a", 1, stream);
  });
  time_replays(benchmark, graph, stream, 1, 1);
}

// The time per kernel in a chain of 128 kernels in one graph.
void gap(benchmark::State& benchmark, bool programmatic) {
  if (skips(benchmark)) return;
  const std::optional<giro::bench::LaunchGap> chain =
      giro::bench::LaunchGap::make(static_cast<int>(kMax), programmatic);
  if (!chain)
    return benchmark.SkipWithError(programmatic ? "this device has no programmatic dependent launch"
                                                : "the chain could not be recorded");
  for (auto _ : benchmark) benchmark.SetIterationTime(chain->seconds() / static_cast<double>(kMax));
}

BENCHMARK(node_of_chain)->RangeMultiplier(2)->Range(1, kMax)->UseManualTime()->Iterations(kRounds);
BENCHMARK(step_of_launch)->RangeMultiplier(2)->Range(1, kMax)->UseManualTime()->Iterations(kRounds);
BENCHMARK(host_step_of_launch)->RangeMultiplier(2)->Range(1, kMax)->UseManualTime()->Iterations(kRounds);
BENCHMARK_CAPTURE(two_chains, in_a_row, false)->Arg(1)->Arg(4)->Arg(16)->UseManualTime()->Iterations(kRounds);
BENCHMARK_CAPTURE(two_chains, as_branches, true)->Arg(1)->Arg(4)->Arg(16)->UseManualTime()->Iterations(kRounds);
BENCHMARK_CAPTURE(gap, plain, false)->UseManualTime()->Iterations(kRounds);
BENCHMARK_CAPTURE(gap, programmatic, true)->UseManualTime()->Iterations(kRounds);

}  // namespace
