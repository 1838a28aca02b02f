#include "loop/run/group_arbiter.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/fake_partitioner.h"

namespace giro {
namespace {

// Held-back steps seem to take no time, so they do not show how long a step takes.
TEST(GroupArbiter, ChecksSignalsEvenIfFirstStepsAreFast) {
  const auto partitioner = std::make_shared<test::FakePartitioner>(0, 2);
  detail::GroupArbiter arbiter(partitioner);
  for (int step = 0; step < 1'000; ++step) arbiter.interrupt();
  EXPECT_GE(partitioner->questions.size(), 9u);
}

}  // namespace
}  // namespace giro
