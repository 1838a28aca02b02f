#include <giro/loop/group_arbiter.h>

#include <gtest/gtest.h>

#include <memory>

#include "tests/fake_partitioner.h"

namespace giro {
namespace {

// Steps that are held back seem to take no time: how long one takes is not known from them.
TEST(GroupArbiter, LooksForSignalsHoweverQuickTheFirstStepsSeem) {
  const auto partitioner = std::make_shared<test::FakePartitioner>(0, 2);
  detail::GroupArbiter arbiter(partitioner);
  for (int step = 0; step < 1'000; ++step) arbiter.interrupt();
  EXPECT_GE(partitioner->questions.size(), 9u);
}

}  // namespace
}  // namespace giro
