// A copy of a state must run after what was queued on the source's stream and before what is queued later on either
// stream; the two streams may differ.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include <giro/runtime/device.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/state.h>

#include "tests/support/cuda_test.h"
#include "tests/support/expect_error.h"

namespace giro {
namespace {

constexpr std::int64_t kCount = 1 << 20;

class CudaStateTest : public test::CudaTest {
 protected:
  void prepare(Device device) override {
    state_ = State(device);
    state_.add("bytes", {{"", DType::u8, {kCount}}});
  }

  static void fill(const State& state, unsigned char value) {
    state.stream().fill(state.at("bytes").raw(), value, kCount);
  }
  static int last(const State& state) { return to_host<std::uint8_t>(state.at("bytes"), state.stream()).back(); }

  void expect_a_copy(const std::function<State(const State&)>& copy) const {
    fill(state_, 1);
    const State copied = copy(state_);
    EXPECT_EQ(copied.device(), state_.device());
    fill(state_, 2);
    EXPECT_EQ(last(copied), 1);
    EXPECT_EQ(last(state_), 2);
  }

  State state_{Device::cpu()};
};

TEST_F(CudaStateTest, Clone) {
  expect_a_copy([](const State& state) { return state.clone(); });
}

TEST_F(CudaStateTest, FlattenAndUnflatten) {
  expect_a_copy([](const State& state) { return state.unflatten(state.flatten()); });
}

TEST_F(CudaStateTest, CloneInAnotherContext) {
  expect_a_copy([](const State& state) { return state.clone(DeviceContext(state.device())); });
}

TEST_F(CudaStateTest, AssignedValues) {
  expect_a_copy([](const State& state) {
    State other(state.device());
    other.add("bytes", {{"", DType::u8, {kCount}}});
    other.assign(state);
    return other;
  });
}

TEST_F(CudaStateTest, RecordedStepContinuesWithAssignedValues) {
  State other(state_.device());
  other.add("bytes", {{"", DType::u8, {kCount}}});
  const Buffer seen = Buffer::allocate(state_.device(), kCount, MemoryKind::pinned);
  const Graph step =
      Graph::record(state_.stream(), [&] { state_.stream().copy(seen.data(), state_.at("bytes").raw(), kCount); });
  for (const auto value : std::vector<unsigned char>{1, 2, 3}) {
    fill(other, value);
    state_.assign(other);
    step.replay(state_.stream());
    state_.stream().synchronize();
    EXPECT_EQ(static_cast<const unsigned char*>(seen.data())[kCount - 1], value);
  }
}

TEST_F(CudaStateTest, StatesOfTwoDevicesCannotBeAssigned) {
  State host(Device::cpu());
  host.add("bytes", {{"", DType::u8, {kCount}}});
  test::expect_error(ErrorCode::device_mismatch, {"assign", "cpu", "cuda:0"}, [&] { state_.assign(host); });
  test::expect_error(ErrorCode::device_mismatch, {"assign", "cpu", "cuda:0"}, [&] { host.assign(state_); });
}

}  // namespace
}  // namespace giro
