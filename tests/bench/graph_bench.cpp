// What a graph of a GPU costs beside its kernels' work: a node, a launch, a branch, the gap between two kernels. Times
// are the device's, but for those called host_*. Without a GPU every case says so, and is skipped.
// With times of its own Google Benchmark knows no end by the clock, and would go on until parts of microseconds add up
// to half a second: so the iterations are counted.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <giro/kernels/elementwise.h>
#include <giro/runtime/device.h>
#include <giro/runtime/graph.h>
#include <giro/runtime/state.h>

#include "tests/bench/launch_gap.h"

namespace {

constexpr std::int64_t kMost = 128;  // nodes of a chain, and steps of a launch
constexpr int kStepNodes = 6;        // as a linear step has
constexpr int kRounds = 1'000;

// A state with a counter, which an op of one thread increments, and another beside it.
struct Counters {
  Counters() : state(giro::Device::cuda()), other(state.stream().device()) {
    for (const char* name : {"a", "b"}) state.add(name, {{"", giro::DType::i64, {}}});
  }
  // Ops in a chain.
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

// Seconds of `times` replays in a row, of which each counts as `parts`.
void time_replays(benchmark::State& benchmark, const giro::Graph& graph, const giro::Stream& stream, std::int64_t times,
                  double parts) {
  graph.replay(stream, times);
  stream.synchronize();
  for (auto _ : benchmark) {
    benchmark.SetIterationTime(graph.replay_time(stream, times) * static_cast<double>(times) / parts);
  }
}

// A node of a chain of so many, in a graph of one launch.
void node_of_chain(benchmark::State& benchmark) {
  if (skips(benchmark)) return;
  const Counters counters;
  const std::int64_t nodes = benchmark.range(0);
  const giro::Graph graph = counters.record([&] { counters.count("a", nodes, counters.state.stream()); });
  time_replays(benchmark, graph, counters.state.stream(), 1, static_cast<double>(nodes));
}

// A step of six nodes, of so many steps in one launch.
void step_of_launch(benchmark::State& benchmark) {
  if (skips(benchmark)) return;
  const Counters counters;
  const giro::Graph graph = counters.record([&] { counters.count("a", kStepNodes, counters.state.stream()); });
  time_replays(benchmark, graph, counters.state.stream(), benchmark.range(0), static_cast<double>(benchmark.range(0)));
}

// What the host spends on such a step, in a launch of so many.
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

// Two chains of so many nodes: one after the other, or as two branches between a first and a last node.
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

// From one kernel to the next in a chain of 128 in one graph.
void gap(benchmark::State& benchmark, bool programmatic) {
  if (skips(benchmark)) return;
  const std::optional<giro::bench::LaunchGap> chain =
      giro::bench::LaunchGap::make(static_cast<int>(kMost), programmatic);
  if (!chain)
    return benchmark.SkipWithError(programmatic ? "this device has no programmatic dependent launch"
                                                : "the chain could not be recorded");
  for (auto _ : benchmark) benchmark.SetIterationTime(chain->seconds() / static_cast<double>(kMost));
}

BENCHMARK(node_of_chain)->RangeMultiplier(2)->Range(1, kMost)->UseManualTime()->Iterations(kRounds);
BENCHMARK(step_of_launch)->RangeMultiplier(2)->Range(1, kMost)->UseManualTime()->Iterations(kRounds);
BENCHMARK(host_step_of_launch)->RangeMultiplier(2)->Range(1, kMost)->UseManualTime()->Iterations(kRounds);
BENCHMARK_CAPTURE(two_chains, in_a_row, false)->Arg(1)->Arg(4)->Arg(16)->UseManualTime()->Iterations(kRounds);
BENCHMARK_CAPTURE(two_chains, as_branches, true)->Arg(1)->Arg(4)->Arg(16)->UseManualTime()->Iterations(kRounds);
BENCHMARK_CAPTURE(gap, plain, false)->UseManualTime()->Iterations(kRounds);
BENCHMARK_CAPTURE(gap, programmatic, true)->UseManualTime()->Iterations(kRounds);

}  // namespace
