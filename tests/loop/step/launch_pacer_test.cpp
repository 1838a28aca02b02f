#include <giro/loop/step/launch_pacer.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using detail::LaunchPacer;

class LaunchPacerTest : public test::OpTest {};

TEST_P(LaunchPacerTest, HostIsAtMostTwoLaunchesAhead) {
  const Buffer seen = Buffer::allocate(device(), sizeof(std::int64_t), MemoryKind::pinned);
  std::memset(seen.data(), 0, seen.size());
  const Tensor count = tensor({}, DType::i64);
  from_host(count, std::vector<std::int64_t>{0}, stream());
  constexpr std::int64_t kSteps = 4;
  LaunchPacer pace(kSteps);
  for (std::int64_t launch = 1; launch <= 10; ++launch) {
    increment(count, kSteps, stream());
    stream().copy(seen.data(), count.raw(), seen.size());
    EXPECT_TRUE(pace.is_full(kSteps));
    pace.launched(kSteps, stream());
    std::int64_t done = 0;
    std::memcpy(&done, seen.data(), sizeof(done));
    EXPECT_GE(done, (launch - 2) * kSteps);
  }
  stream().synchronize();
}

TEST_P(LaunchPacerTest, GrowsWhileLaunchesAreShort) {
  LaunchPacer pace(0);
  EXPECT_TRUE(pace.is_full(1));
  std::int64_t steps = 1;
  // An empty launch takes no time, unless the machine is busy.
  for (int launch = 0; launch < 10'000 && steps < LaunchPacer::kMaxSteps; ++launch) {
    pace.launched(steps, stream());
    while (!pace.is_full(steps)) ++steps;
    EXPECT_LE(steps, LaunchPacer::kMaxSteps);
  }
  EXPECT_EQ(steps, LaunchPacer::kMaxSteps);
  EXPECT_FALSE(pace.is_full(steps - 1));
}

TEST_P(LaunchPacerTest, FixedNumberStays) {
  LaunchPacer pace(3);
  for (int launch = 0; launch < 20; ++launch) {
    EXPECT_FALSE(pace.is_full(2));
    EXPECT_TRUE(pace.is_full(3));
    pace.launched(3, stream());
  }
  test::expect_invalid({"steps_per_execution is -1"}, [] { (void)LaunchPacer(-1); });
}

INSTANTIATE_TEST_SUITE_P(Devices, LaunchPacerTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
