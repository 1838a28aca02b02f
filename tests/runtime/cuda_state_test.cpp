// Two states are two streams: a copy has to wait for the one and be complete for the other.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include <giro/runtime/device.h>
#include <giro/runtime/state.h>

namespace giro {
namespace {

class CudaStateTest : public testing::Test {
 protected:
  static constexpr std::int64_t kCount = 1 << 20;

  void SetUp() override {
    const Discovery discovery = discover_devices();
    if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
    state_ = State(discovery.best());
    state_.add("bytes", {{"", DType::u8, {kCount}}});
  }

  static void fill(const State& state, unsigned char value) {
    state.stream().fill(state.at("bytes").raw(), value, kCount);
  }
  static int last(const State& state) { return to_host<std::uint8_t>(state.at("bytes"), state.stream()).back(); }

  void expect_a_copy(const std::function<State(const State&)>& copy) const {
    fill(state_, 1);
    const State copied = copy(state_);
    fill(state_, 2);
    EXPECT_EQ(last(copied), 1);
    EXPECT_EQ(last(state_), 2);
  }

  State state_{Device::cpu()};
};

TEST_F(CudaStateTest, AClone) {
  expect_a_copy([](const State& state) { return state.clone(); });
}

TEST_F(CudaStateTest, LeavesTakenApartAndPutTogether) {
  expect_a_copy([](const State& state) { return state.unflatten(state.flatten()); });
}

}  // namespace
}  // namespace giro
