#include "kernels/cpu/wait_policy.h"

#include <gtest/gtest.h>

namespace giro::cpu {
namespace {

TEST(ContentionTest, FollowsTheRateOfInvoluntarySwitches) {
  Contention contention;
  EXPECT_TRUE(contention.due(100));
  EXPECT_FALSE(contention.update(100, 1'000'000));  // what came before it looked
  EXPECT_FALSE(contention.due(100.05));
  EXPECT_TRUE(contention.due(100.11));
  EXPECT_FALSE(contention.update(100.2, 1'000'002));  // 10 a second
  EXPECT_TRUE(contention.update(100.4, 1'000'012));   // 50 a second
  EXPECT_TRUE(contention.update(100.6, 1'000'013));   // calm, but not for long
  EXPECT_TRUE(contention.update(102.3, 1'000'015));
  EXPECT_FALSE(contention.update(102.5, 1'000'015));
  EXPECT_TRUE(contention.update(103.0, 1'000'040));
  EXPECT_TRUE(contention.update(104.9, 1'000'040));
  EXPECT_TRUE(contention.update(105.0, 1'000'050));  // again: it counts from here
  EXPECT_TRUE(contention.update(106.9, 1'000'050));
  EXPECT_FALSE(contention.update(107.1, 1'000'050));
  // A long time without parallel work is one window.
  EXPECT_FALSE(contention.update(207.1, 1'002'000));
}

}  // namespace
}  // namespace giro::cpu
