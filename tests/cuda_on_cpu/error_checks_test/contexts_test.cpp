// Tests what a context opens and when, by counting giro's calls.

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/runtime/device_context.h>
#include <giro/runtime/error.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

#include "tests/cuda_on_cpu/runtime/injection.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

// How often f makes this call.
unsigned long long calls(const char* name, const std::function<void()>& f) {
  const unsigned long long before = cuda_on_cpu_calls(name);
  f();
  return cuda_on_cpu_calls(name) - before;
}

State make_state() {
  State state(Device::cuda());
  state.add("x", {{"", DType::f32, {2, 4, 4, 1}}});
  state.add("w", {{"", DType::f32, {2, 3, 3, 1}}});
  state.add("v", {{"", DType::f32, {16, 2}}});
  state.add("b", {{"", DType::f32, {2}}});
  state.add("y", {{"", DType::f32, {2, 2, 2, 2}}});
  state.add("z", {{"", DType::f32, {2, 2}}});
  state.add("n", {{"", DType::i64, {}}});
  for (const char* name : {"x", "w", "v"}) {
    from_host(state.at(name), std::vector<float>(static_cast<std::size_t>(state.at(name).count()), 1), state.stream());
  }
  return state;
}

void convolve(const State& s) { conv2d(s.at("y"), s.at("x"), s.at("w"), s.at("b"), {}, s.stream()); }
void multiply(const State& s) { dense(s.at("z"), s.at("x").reshape({2, 16}), s.at("v"), s.at("b"), s.stream()); }
void count(const State& s) { increment(s.at("n"), 1, s.stream()); }

TEST(ContextsCuda, CopyingAStateOpensNoHandles) {
  State state = make_state();
  for (const char* name : {"cudaStreamCreateWithFlags", "cublasLtCreate", "cudnnCreate"}) {
    EXPECT_EQ(calls(name,
                    [&] {
                      State copy = state.clone(), other = state.unflatten(state.flatten());
                      copy.assign(state);
                      Snapshot snapshot(state);
                      snapshot.write_back(copy);
                      for (const State* s : {&copy, &other}) Graph::record(s->stream(), [&] { count(*s); });
                    }),
              0u)
        << name;
  }
}

TEST(ContextsCuda, LibraryIsOpenedOnceOnFirstUse) {
  const auto opened = [](const char* library, const std::function<void(const State&)>& work) {
    return calls(library, [&] {
      const State state = make_state();
      Graph::record(state.stream(), [&] { work(state); });
      Graph::record(state.stream(), [&] { work(state); });
      work(state.clone());
      state.stream().synchronize();
    });
  };
  for (const auto& [library, work, other] :
       {std::tuple{"cudnnCreate", &convolve, &multiply}, std::tuple{"cublasLtCreate", &multiply, &convolve}}) {
    EXPECT_EQ(opened(library, count), 0u) << library;
    EXPECT_EQ(opened(library, *other), 0u) << library;
    EXPECT_EQ(opened(library, *work), 1u) << library;
  }
}

// The library's first use comes before, between and after other work of the recording.
TEST(ContextsCuda, OpeningALibraryInARecordingKeepsTheRecording) {
  const State state = make_state();
  const Graph graph = Graph::record(state.stream(), [&] {
    convolve(state);
    count(state);
    state.stream().fill(state.at("x").raw(), 0, state.at("x").bytes());
    multiply(state);
    count(state);
  });
  EXPECT_EQ(to_host<std::int64_t>(state.at("n"), state.stream()).front(), 0);
  state.stream().fill(state.at("z").raw(), 0xff, state.at("z").bytes());
  graph.replay(state.stream());
  EXPECT_EQ(to_host<std::int64_t>(state.at("n"), state.stream()).front(), 2);
  EXPECT_EQ(to_host<float>(state.at("y"), state.stream()), std::vector<float>(16, 9));
  EXPECT_EQ(to_host<float>(state.at("z"), state.stream()), std::vector<float>(4, 0)) << "of x as it is by then";
}

// Fails each call in turn, up to the one that queues the convolution. A plan of cuDNN that fails is passed over.
TEST(ContextsCuda, FailureToOpenALibraryInARecordingIsReportedAndLeavesTheStreamUsable) {
  bool is_open = false;
  for (unsigned long long nth = 1; !is_open; ++nth) {
    ASSERT_LT(nth, 100u);
    const State fresh = make_state();
    ASSERT_TRUE(cuda_on_cpu_fail("call", nth));
    bool is_reported = false;
    try {
      (void)Graph::record(fresh.stream(), [&] {
        fresh.stream().fill(fresh.at("y").raw(), 0, fresh.at("y").bytes());
        convolve(fresh);
      });
    } catch (const Error&) {
      is_reported = true;
    }
    const std::string failed = cuda_on_cpu_calls_since_failure();
    const bool is_of_a_plan = failed.starts_with("cudnnBackend") || failed.starts_with("cudnnGetStream");
    EXPECT_TRUE(is_reported || is_of_a_plan) << failed;
    cuda_on_cpu_fail("call", 0);
    is_open = failed.starts_with("cudnnBackendExecute");
    EXPECT_FALSE(fresh.stream().is_recording());
    count(fresh);
    EXPECT_EQ(to_host<std::int64_t>(fresh.at("n"), fresh.stream()).front(), 1) << failed;
  }
}

// Otherwise the libraries would be closed with the stream.
TEST(ContextsCuda, GraphKeepsTheLibrariesOfItsNodes) {
  const State state = make_state();
  std::optional<Graph> graph;
  {
    const Stream stream(Device::cuda());
    graph = Graph::record(stream, [&] {
      conv2d(state.at("y"), state.at("x"), state.at("w"), state.at("b"), {}, stream);
      dense(state.at("z"), state.at("x").reshape({2, 16}), state.at("v"), state.at("b"), stream);
    });
    const Graph sequence = Graph::sequence({&*graph});
    graph = Graph::sequence({&sequence, &sequence});
  }
  graph->replay(state.stream(), 2);
  EXPECT_EQ(to_host<float>(state.at("y"), state.stream()), std::vector<float>(16, 9));
  EXPECT_EQ(to_host<float>(state.at("z"), state.stream()), std::vector<float>(4, 16));
}

TEST(ContextsCuda, PreparedGraphIsNotInstantiatedDuringARun) {
  const State state = make_state();
  const Graph once = Graph::record(state.stream(), [&] { count(state); });
  const Graph graph = Graph::sequence({&once, &once});
  graph.prepare(100);
  EXPECT_EQ(calls("cudaGraphInstantiate",
                  [&] {
                    for (std::int64_t times = 0; times <= 100; ++times) graph.replay(state.stream(), times);
                  }),
            0u);
  EXPECT_EQ(calls("cudaGraphLaunch", [&] { graph.replay(state.stream(), 100); }), 3u) << "64, 32 and 4";
  EXPECT_EQ(to_host<std::int64_t>(state.at("n"), state.stream()).front(), 2 * (5050 + 100));
}

TEST(ContextsCuda, AssignAndSnapshotsDoNotWait) {
  State state = make_state(), other = make_state();
  Snapshot snapshot(state);
  for (const char* name :
       {"cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize", "cudaEventQuery"}) {
    EXPECT_EQ(calls(name,
                    [&] {
                      state.assign(other);
                      snapshot.update(state);
                      snapshot.write_back(other);
                      const State copy = state.clone();
                    }),
              0u)
        << name;
  }
}

}  // namespace
}  // namespace giro
