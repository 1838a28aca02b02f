#include <giro/runtime/device_context.h>

#include <future>
#include <utility>
#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/state.h>

#include "tests/runtime/device_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

class DeviceContextTest : public test::DeviceTest {};

TEST_P(DeviceContextTest, IsAHandle) {
  const DeviceContext a = device(), b = device();
  DeviceContext copy = a;
  EXPECT_EQ(copy, a);
  EXPECT_EQ(copy.stream(), a.stream());
  EXPECT_NE(a, b);
  EXPECT_NE(a.stream(), b.stream());
  EXPECT_EQ(a.device(), device());
  const DeviceContext moved = std::move(copy);
  EXPECT_EQ(moved, copy) << "a move is a copy";  // NOLINT
}

TEST_P(DeviceContextTest, HasACopyStream) {
  const DeviceContext context = device(), copy = context;
  EXPECT_EQ(context.copy_stream().device(), device());
  EXPECT_EQ(context.copy_stream(), copy.copy_stream());
  EXPECT_EQ(context.copy_stream() == context.stream(), device().is_cpu());
}

// Each context has everything that work on it needs. This runs under ThreadSanitizer, and on GPUs, which have rules for
// captures in several threads.
TEST_P(DeviceContextTest, ThreadsWithOwnContextsRecordAndReplayConcurrently) {
  constexpr int kThreads = 2, kRounds = 3;
  std::vector<std::future<void>> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.push_back(std::async(std::launch::async, [] {
      for (int round = 0; round < kRounds; ++round) {
        State state(device());  // its destruction coincides with recordings of the other threads
        state.add("x", {{"", DType::f32, {2, 4, 4, 1}}});
        state.add("w", {{"", DType::f32, {2, 3, 3, 1}}});
        state.add("v", {{"", DType::f32, {16, 2}}});
        state.add("z", {{"", DType::f32, {2, 2}}});
        state.add("y", {{"", DType::f32, {2, 4, 4, 2}}});
        state.add("b", {{"", DType::f32, {2}}});
        state.add("n", {{"", DType::i64, {}}});
        const Stream& stream = state.stream();
        for (const char* name : {"x", "w", "v"}) {
          from_host(state.at(name), std::vector<float>(static_cast<std::size_t>(state.at(name).count()), 1), stream);
        }
        const auto step = [&] {
          const Buffer storage = stream.allocate(state.at("y").bytes());
          const Tensor y(storage.data(), DType::f32, state.at("y").shape(), device());
          conv2d(y, state.at("x"), state.at("w"), state.at("b"), {.pad_before = {1, 1}, .pad_after = {1, 1}}, stream);
          dense(state.at("z"), state.at("x").reshape({2, 16}), state.at("v"), state.at("b"), stream);
          copy(state.at("y"), y, stream);
          increment(state.at("n"), 1, stream);
        };
        const Graph one = Graph::record(stream, step), other = Graph::record(stream, step);
        const Graph both = Graph::sequence({&one, &other});
        both.replay(stream, 3);
        EXPECT_EQ(read(state.at("n"), stream), 6);
        EXPECT_EQ(to_host<float>(state.at("y"), stream)[2 * (4 + 1)], 9) << "in the middle all of the window is ones";
        EXPECT_EQ(to_host<float>(state.at("z"), stream), std::vector<float>(4, 16));
        const State copied = state.clone();
        one.replay(stream);
        state.assign(copied);
        EXPECT_EQ(read(state.at("n"), stream), 6);
      }
    }));
  }
  for (auto& thread : threads) EXPECT_NO_THROW(thread.get());
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceContextTest, test::kEachDevice, test::name_of_device);

}  // namespace
}  // namespace giro
